package config

import (
	"slices"
	"strconv"
	"strings"
)

// parser reads what a key holds, and tells docs/config.md what that may be.
type parser[T any] struct {
	// parse turns a value into what the key holds. Where it cannot, it has reported why and answers false.
	parse func(v value) (T, bool)
	// form is what a person writes, such as "duration"; limits is what of it is taken, "" for all.
	form, limits string
	// words are all there are, where the form is one word of several.
	words []string
	// show writes what the key holds as the file has it. Nil where a default is never shown.
	show func(T) string
}

// plain is any text that meets the rule, which returns what is wrong, or "". limits is the rule in a few words.
func plain(limits string, rule func(string) string) parser[string] {
	return parser[string]{form: "text", limits: limits, show: asItIs[string], parse: func(v value) (string, bool) {
		s, ok := v.scalar("text, in quotes where YAML would read it otherwise", "!!str")
		if !ok {
			return "", false
		}
		if wrong := rule(s); wrong != "" {
			v.fail("%s %s", v.shown(), wrong)
			return "", false
		}
		return s, true
	}}
}

func asItIs[T ~string](s T) string { return string(s) }

// secret is text that no error shows.
func secret(limits string, rule func(string) string) parser[Secret] {
	return parser[Secret]{form: "secret", limits: limits, parse: func(v value) (Secret, bool) {
		v.hidden = true
		s, ok := v.scalar("text, in quotes where YAML would read it otherwise", "!!str")
		if !ok {
			return "", false
		}
		if wrong := rule(s); wrong != "" {
			v.fail("the value (not shown) %s", wrong)
			return "", false
		}
		return Secret(s), true
	}}
}

// oneOf is one word of several.
func oneOf[T ~string](words ...T) parser[T] {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	text := plain("", among(texts))
	return parser[T]{form: "one of", words: texts, show: asItIs[T], parse: func(v value) (T, bool) {
		s, ok := text.parse(v)
		return T(s), ok
	}}
}

// oneOfUnseen is one word of several beside a password, which is easily put there: a wrong one is not shown.
func oneOfUnseen(words ...string) parser[string] {
	hidden := secret("", among(words))
	return parser[string]{form: "one of", words: words, show: asItIs[string], parse: func(v value) (string, bool) {
		word, ok := hidden.parse(v)
		return word.Reveal(), ok
	}}
}

func among(words []string) func(string) string {
	return func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		return "is none of " + strings.Join(words, ", ")
	}
}

// list is a list of different elements, at least so many.
func list[T comparable](least int, element parser[T]) parser[[]T] {
	limits := element.limits
	if least > 0 {
		limits = strings.TrimSuffix("at least "+strconv.Itoa(least)+", each "+limits, ", each ")
	}
	show := func(all []T) string {
		texts := make([]string, len(all))
		for i, each := range all {
			texts[i] = element.show(each)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return parser[[]T]{form: "list", limits: limits, show: show, parse: func(v value) ([]T, bool) {
		values, ok := v.elements()
		if !ok {
			return nil, false
		}
		var result []T
		for _, each := range values {
			if each.bad {
				ok = false
				continue
			}
			parsed, fine := element.parse(each)
			if fine && slices.Contains(result, parsed) {
				each.fail("%s stands twice", each.shown())
				fine = false
			}
			result, ok = append(result, parsed), ok && fine
		}
		if ok && len(result) < least {
			v.fail("must have at least %d element", least)
			return nil, false
		}
		return result, ok
	}}
}

func boolean() parser[bool] {
	return parser[bool]{form: "one of", words: []string{"true", "false"}, show: strconv.FormatBool, parse: func(v value) (bool, bool) {
		s, ok := v.scalar("true or false", "!!bool")
		if !ok {
			return false, false
		}
		switch strings.ToLower(s) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		v.fail("%s is neither true nor false", v.shown())
		return false, false
	}}
}
