package config

import (
	"errors"
	"slices"
	"strings"
)

// jaasLogin is what sasl.jaas.config says.
type jaasLogin struct {
	// module is the login module's class without its package: PlainLoginModule, ScramLoginModule.
	module             string
	username, password string
}

// The login modules of Kafka that log in with a username and a password.
const (
	plainModule = "PlainLoginModule"
	scramModule = "ScramLoginModule"
)

// moduleClasses are the full names of the modules. Databricks ships Kafka's client under a name of its own.
var moduleClasses = map[string]string{ //nolint:gochecknoglobals // an immutable table
	"org.apache.kafka.common.security.plain.PlainLoginModule":             plainModule,
	"org.apache.kafka.common.security.scram.ScramLoginModule":             scramModule,
	"kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule": plainModule,
	"kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule": scramModule,
}

// The errors of parseJAAS hold nothing of its text, since any part of it may be the password.
var (
	errJAASForm     = errors.New(`is no login such as: org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";`)
	errJAASQuote    = errors.New("has a quote that is not closed")
	errJAASEnd      = errors.New("must end with a semicolon; a value with a slash, a blank, = or ; must stand in quotes")
	errJAASModules  = errors.New("has more than one login module: keep one")
	errJAASModule   = errors.New("has a login module that is not supported: use PlainLoginModule or ScramLoginModule of org.apache.kafka.common.security, with username and password")
	errJAASOption   = errors.New("has other options than username and password, and those are not supported: leave them out")
	errJAASTwice    = errors.New("has an option twice")
	errJAASPassword = errors.New("needs both username and password")
)

// parseJAAS reads sasl.jaas.config by the grammar of org.apache.kafka.common.security.JaasConfig: a class, a control
// flag, options with = between name and value, a semicolon.
func parseJAAS(text string) (jaasLogin, error) {
	tokens, err := jaasTokens(text)
	if err != nil {
		return jaasLogin{}, err
	}
	end := slices.Index(tokens, jaasToken{mark: ';'})
	switch {
	case end < 0:
		return jaasLogin{}, errJAASEnd
	case end < len(tokens)-1:
		return jaasLogin{}, errJAASModules
	case end < 2 || tokens[0].mark != 0 || tokens[1].mark != 0:
		return jaasLogin{}, errJAASForm
	case !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, strings.ToLower(tokens[1].text)):
		return jaasLogin{}, errJAASForm
	}
	options, err := jaasOptions(tokens[2:end])
	if err != nil {
		return jaasLogin{}, err
	}
	login := jaasLogin{moduleClasses[tokens[0].text], options["username"], options["password"]}
	delete(options, "username")
	delete(options, "password")
	switch {
	case login.module == "":
		return jaasLogin{}, errJAASModule
	case len(options) > 0:
		return jaasLogin{}, errJAASOption
	case login.username == "" || login.password == "":
		return jaasLogin{}, errJAASPassword
	}
	return login, nil
}

func jaasOptions(tokens []jaasToken) (map[string]string, error) {
	options := map[string]string{}
	for len(tokens) > 0 {
		if len(tokens) < 3 || tokens[0].mark != 0 || tokens[1].mark != '=' || tokens[2].mark != 0 {
			return nil, errJAASForm
		}
		if _, twice := options[tokens[0].text]; twice {
			return nil, errJAASTwice
		}
		options[tokens[0].text] = tokens[2].text
		tokens = tokens[3:]
	}
	return options, nil
}

// jaasToken is a word, in quotes or not, or one of the marks = and ;.
type jaasToken struct {
	mark byte
	text string
}

// jaasTokens cuts a text as java.io.StreamTokenizer does, with Kafka's settings: a slash outside of quotes begins a
// comment, all but blanks, quotes, = and ; is a word.
func jaasTokens(text string) ([]jaasToken, error) {
	var tokens []jaasToken
	for text != "" {
		switch c := text[0]; {
		case c <= ' ':
			text = text[1:]
		case c == '/':
			text = afterComment(text)
		case c == '=' || c == ';':
			tokens, text = append(tokens, jaasToken{mark: c}), text[1:]
		case c == '"' || c == '\'':
			word, rest, closed := quotedWord(text)
			if !closed {
				return nil, errJAASQuote
			}
			tokens, text = append(tokens, jaasToken{text: word}), rest
		default:
			end := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`=;"'/`, r) })
			if end < 0 {
				end = len(text)
			}
			tokens, text = append(tokens, jaasToken{text: text[:end]}), text[end:]
		}
	}
	return tokens, nil
}

func afterComment(text string) string {
	end := "\n"
	if strings.HasPrefix(text, "/*") {
		text, end = text[len("/*"):], "*/"
	}
	_, rest, _ := strings.Cut(text, end)
	return rest
}

// quotedWord reads a word in quotes with the escapes of Java's strings. A line's end does not stand in one.
func quotedWord(text string) (word, rest string, closed bool) {
	var plain []byte
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return string(plain), text[i+1:], true
		case c == '\n' || c == '\r':
			return "", "", false
		case c == '\\' && i+1 < len(text):
			char, size := jaasEscape(text[i+1:])
			plain = append(plain, char...)
			i += size
		default:
			plain = append(plain, c)
		}
	}
	return "", "", false
}

// jaasEscape returns the character that an escape stands for, and how many bytes it takes after its backslash.
func jaasEscape(text string) (char string, size int) {
	if c := text[0]; c >= '0' && c <= '7' {
		longest := 2
		if c <= '3' {
			longest = 3
		}
		code := rune(0)
		for size < min(longest, len(text)) && text[size] >= '0' && text[size] <= '7' {
			code = code*8 + rune(text[size]-'0')
			size++
		}
		return string(code), size
	}
	const letters, chars = "abfnrtv", "\a\b\f\n\r\t\v"
	if i := strings.IndexByte(letters, text[0]); i >= 0 {
		return chars[i : i+1], 1
	}
	return text[:1], 1
}
