// Package scheduler is a small stand-in for Cloud Scheduler on a person's machine: it calls an HTTP function by a cron
// schedule, gives an attempt up at its deadline without stopping the function, tries a failed one again, and may call
// twice at once, as a service that delivers at least once does.
//
// What it does not do: time zones, authentication, a job that outlives the process.
package scheduler
