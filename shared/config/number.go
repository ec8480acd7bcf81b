package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// whole is a whole number in [least, most].
func whole[T int | int32 | int64](least, most T) parser[T] {
	limits := fmt.Sprintf("%d to %d", least, most)
	if int64(most) == math.MaxInt64 {
		limits = fmt.Sprintf("%d or more", least)
	}
	show := func(n T) string { return strconv.FormatInt(int64(n), 10) }
	return parser[T]{form: "whole number", limits: limits, show: show, parse: func(v value) (T, bool) {
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
	}}
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
func share() parser[float64] {
	show := func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
	return parser[float64]{form: "number", limits: "above 0, at most 1", show: show, parse: func(v value) (float64, bool) {
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
	}}
}

var sizeForm = regexp.MustCompile(`^([0-9]+) ?(B|KiB|MiB|GiB|TiB)?$`)

// size is a number of bytes in [least, most].
func size(least, most int64) parser[int64] {
	limits := formatSize(least) + " to " + formatSize(most)
	if most == math.MaxInt64 {
		limits = formatSize(least) + " or more"
	}
	return parser[int64]{form: "size", limits: limits, show: formatSize, parse: func(v value) (int64, bool) {
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
	}}
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
	limits := formatDuration(least) + " to " + formatDuration(most)
	return parser[time.Duration]{form: "duration", limits: limits, show: formatDuration, parse: func(v value) (time.Duration, bool) {
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
	}}
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
