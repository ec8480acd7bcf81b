// Package telemetry writes what a run did as lines that Cloud Logging understands: slog records as JSON with severity,
// trace, span and execution id.
//
// A run has one wide line, its report; LogReport's comment says which severity it gets and why. Keys are snake_case.
// Neither a payload nor a credential is ever in a line: reports hold none, by the contract of package record.
//
// Not its job: to decide what an error means, to send anything over the network.
package telemetry
