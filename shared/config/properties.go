package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// property is one entry of a Java .properties text.
type property struct {
	key, value string
	line       int // where it begins, from 1
}

// propertyError says which line cannot be read. Its text holds nothing of the line.
type propertyError struct {
	line int
	text string
}

func (e *propertyError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// parseProperties reads a text as java.util.Properties.load does: comments with # and !, lines that a backslash
// continues, keys that end at =, : or a blank, escapes. Entries come in their order, also where a key stands twice.
// A text that is no UTF-8 is Latin-1, which is what Java takes every such file for.
func parseProperties(text string) ([]property, error) {
	var found []property
	for _, logical := range logicalLines(inUTF8(text)) {
		key, value := splitProperty(logical.text)
		name, err := unescape(key)
		if err != nil {
			return nil, &propertyError{logical.line, err.Error()}
		}
		content, err := unescape(value)
		if err != nil {
			return nil, &propertyError{logical.line, err.Error()}
		}
		found = append(found, property{name, content, logical.line})
	}
	return found, nil
}

func inUTF8(text string) string {
	if utf8.ValidString(text) {
		return strings.TrimPrefix(text, "\ufeff")
	}
	var latin1 strings.Builder
	for i := range len(text) {
		latin1.WriteRune(rune(text[i]))
	}
	return latin1.String()
}

type logicalLine struct {
	text string
	line int
}

const blanks = " \t\f"

// logicalLines joins lines that end with an odd number of backslashes with the next one, without the blanks before it.
// A comment is never continued, and inside of a continued line nothing is a comment.
func logicalLines(text string) []logicalLine {
	var lines []logicalLine
	var open logicalLine
	continued := false
	natural := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	for i, line := range natural {
		line = strings.TrimLeft(line, blanks)
		if open.text == "" {
			if line == "" || line[0] == '#' || line[0] == '!' {
				continue
			}
			open.line = i + 1
		}
		content := strings.TrimRight(line, `\`)
		continued = (len(line)-len(content))%2 == 1
		if continued {
			line = line[:len(line)-1]
		}
		open.text += line
		if !continued && open.text != "" {
			lines, open = append(lines, open), logicalLine{}
		}
	}
	if open.text != "" {
		lines = append(lines, open)
	}
	return lines
}

// splitProperty cuts a logical line at the first =, : or blank that no backslash precedes; one = or : may stand among
// blanks.
func splitProperty(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=:"+blanks, rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	key, value = line[:end], strings.TrimLeft(line[end:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return key, value
}

var (
	errEscape    = errors.New(`an escape \u needs four hexadecimal digits after it`)
	errSurrogate = errors.New(`an escape \u is half of a character: the other half must follow it`)
)

// unescape replaces \t, \n, \r, \f and \uXXXX; before any other character a backslash is left out.
func unescape(text string) (string, error) {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			plain.WriteByte(text[i])
			continue
		}
		i++
		if i == len(text) {
			break
		}
		switch text[i] {
		case 't':
			plain.WriteByte('\t')
		case 'n':
			plain.WriteByte('\n')
		case 'r':
			plain.WriteByte('\r')
		case 'f':
			plain.WriteByte('\f')
		case 'u':
			char, size, err := unicodeEscape(text[i-1:])
			if err != nil {
				return "", err
			}
			plain.WriteRune(char)
			i += size - len(`\u`)
		default:
			plain.WriteByte(text[i])
		}
	}
	return plain.String(), nil
}

// unicodeEscape reads the escape at the start of a text, which is two of them for characters beyond 16 bits.
func unicodeEscape(text string) (char rune, size int, err error) {
	const one = len(`\u0000`)
	char, err = hexEscape(text)
	if err != nil || !utf16.IsSurrogate(char) {
		return char, one, err
	}
	low, err := hexEscape(text[one:])
	if err != nil {
		return 0, 0, errSurrogate
	}
	if char = utf16.DecodeRune(char, low); char == utf8.RuneError {
		return 0, 0, errSurrogate
	}
	return char, 2 * one, nil
}

func hexEscape(text string) (rune, error) {
	const one = len(`\u0000`)
	if len(text) < one || text[:2] != `\u` || strings.ContainsAny(text[2:one], "+_") {
		return 0, errEscape
	}
	unit, err := strconv.ParseUint(text[2:one], 16, 16)
	if err != nil {
		return 0, errEscape
	}
	return rune(unit), nil
}
