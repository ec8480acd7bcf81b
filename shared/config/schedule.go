package config

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// schedule reads a cron line of five fields, the form that Cloud Scheduler and people share. The parser's own additions
// are refused: Cloud Scheduler has no @hourly, and a time zone is a setting of its job.
func schedule() parser[string] {
	return plain("a cron line of five fields", func(line string) string {
		if len(strings.Fields(line)) != 5 || strings.ContainsAny(line, "@=") {
			return `is no cron line of five fields, such as "*/5 * * * *"`
		}
		times, err := cron.ParseStandard(line)
		if err != nil {
			return `is no cron line such as "*/5 * * * *": ` + "each field must be a number, a range, a step or a list in its bounds"
		}
		if times.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			return "never comes: no such day is in the calendar"
		}
		return ""
	})
}

// shortestPeriod returns the shortest time between two calls of a schedule, in UTC. It looks at so many calls that
// every pattern of minutes, hours and days has come round; the rarer ones are far apart.
func shortestPeriod(line string) (time.Duration, bool) {
	const calls = 3000
	times, err := cron.ParseStandard(line)
	if err != nil {
		return 0, false
	}
	shortest := time.Duration(0)
	last := times.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	for range calls {
		next := times.Next(last)
		if next.IsZero() {
			break
		}
		if period := next.Sub(last); shortest == 0 || period < shortest {
			shortest = period
		}
		last = next
	}
	return shortest, shortest > 0
}
