package config

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parser turns a value into what a key holds. Where it cannot, it has reported why and answers false.
type parser[T any] func(v value) (T, bool)

// plain is any text that meets the rule, which returns what is wrong, or "".
func plain(rule func(string) string) parser[string] {
	return func(v value) (string, bool) {
		s, ok := v.scalar("text, in quotes where YAML would read it otherwise", "!!str")
		if !ok {
			return "", false
		}
		if wrong := rule(s); wrong != "" {
			v.fail("%s %s", v.shown(), wrong)
			return "", false
		}
		return s, true
	}
}

// secret is text that no error shows.
func secret(rule func(string) string) parser[Secret] {
	return func(v value) (Secret, bool) {
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
	}
}

// oneOf is one word of several.
func oneOf(words ...string) parser[string] { return plain(among(words)) }

// oneOfUnseen is one word of several beside a password, which is easily put there: a wrong one is not shown.
func oneOfUnseen(words ...string) parser[string] {
	return func(v value) (string, bool) {
		word, ok := secret(among(words))(v)
		return word.Reveal(), ok
	}
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
	return func(v value) ([]T, bool) {
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
			parsed, fine := element(each)
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
	}
}

func boolean(v value) (bool, bool) {
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
}

// whole is a whole number in [least, most].
func whole[T int | int32 | int64](least, most T) parser[T] {
	return func(v value) (T, bool) {
		s, ok := v.scalar("a whole number", "!!int")
		if !ok {
			return 0, false
		}
		if v.refuseLeadingZero(s) {
			return 0, false
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			v.fail("%s is no whole number in decimal digits", v.shown())
			return 0, false
		}
		if n < int64(least) && int64(most) == math.MaxInt64 {
			v.fail("%s is below %d", v.shown(), least)
			return 0, false
		}
		if n < int64(least) || n > int64(most) {
			v.fail("%s is not between %d and %d", v.shown(), least, most)
			return 0, false
		}
		return T(n), true
	}
}

var leadingZero = regexp.MustCompile(`^[+-]?0[0-9]+$`)

// refuseLeadingZero reports a number such as 010, which is 8 to YAML 1.1 and C, and 10 to most people.
func (v value) refuseLeadingZero(s string) bool {
	if !leadingZero.MatchString(s) {
		return false
	}
	decimal, err := strconv.ParseInt(s, 10, 64)
	octal, octalErr := strconv.ParseInt(s, 8, 64)
	switch {
	case v.hidden || err != nil:
		v.fail("%s begins with 0: write the number without it", v.shown())
	case octalErr != nil || octal == decimal:
		v.fail("%s begins with 0: write %d", v.shown(), decimal)
	default:
		v.fail("%s begins with 0, so that it may be meant as octal: write %d or %d", v.shown(), decimal, octal)
	}
	return true
}

// share is a number in (0, 1].
func share(v value) (float64, bool) {
	s, ok := v.scalar("a number", "!!float", "!!int")
	if !ok {
		return 0, false
	}
	// NaN fails both comparisons.
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0 && n <= 1) {
		v.fail("%s is no number above 0 and at most 1", v.shown())
		return 0, false
	}
	return n, true
}

var sizeForm = regexp.MustCompile(`^([0-9]+) ?(B|KiB|MiB|GiB|TiB)?$`)

// size is a number of bytes in [least, most].
func size(least, most int64) parser[int64] {
	return func(v value) (int64, bool) {
		s, ok := v.scalar("a size such as 128MiB", "!!str", "!!int")
		if !ok {
			return 0, false
		}
		if v.refuseLeadingZero(s) {
			return 0, false
		}
		n, ok := parseSize(s)
		if !ok {
			v.fail("%s is no size: write bytes or KiB, MiB, GiB, TiB, such as 128MiB", v.shown())
			return 0, false
		}
		if n < least || n > most {
			v.fail("%s is not between %s and %s", v.shown(), formatSize(least), formatSize(most))
			return 0, false
		}
		return n, true
	}
}

func parseSize(s string) (int64, bool) {
	parts := sizeForm.FindStringSubmatch(s)
	if parts == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	shift := 10 * max(0, slices.Index([]string{"B", "KiB", "MiB", "GiB", "TiB"}, parts[2]))
	if err != nil || n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}

func formatSize(n int64) string {
	units := []string{"", "KiB", "MiB", "GiB", "TiB"}
	unit := 0
	for unit < len(units)-1 && n != 0 && n%1024 == 0 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

// duration is a length of time in [least, most].
func duration(least, most time.Duration) parser[time.Duration] {
	return func(v value) (time.Duration, bool) {
		s, ok := v.scalar("a duration such as 90s", "!!str")
		if !ok {
			return 0, false
		}
		d, ok := parseDuration(s)
		if !ok {
			v.fail("%s is no duration such as 500ms, 90s, 9m, 1h30m, 30d", v.shown())
			return 0, false
		}
		if d < least || d > most {
			v.fail("%s is not between %s and %s", v.shown(), formatDuration(least), formatDuration(most))
			return 0, false
		}
		return d, true
	}
}

const day = 24 * time.Hour

// parseDuration reads Go's form, and whole days, which Go does not have.
func parseDuration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err != nil || n < 0 || n > int64(math.MaxInt64/day) {
			return 0, false
		}
		return time.Duration(n) * day, true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// formatDuration writes a duration as the file would: 4m, not 4m0s.
func formatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
