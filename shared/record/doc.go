// Package record holds the types that travel between the packages of a run: records, ranges, writes, dead letters, the
// lane document that is the checkpoint, and the run report.
//
// Types and what holds for each of them alone, on the standard library only: every adapter may import it and it imports nobody.
package record
