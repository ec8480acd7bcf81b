// Package ingest is the function that Cloud Scheduler calls: each call moves one window of one lane of a pipeline from
// Kafka into MongoDB and answers with the run report.
//
// function.go registers it and handles a call; wire.go is the only place that names the adapters.
package ingest
