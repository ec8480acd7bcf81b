// Package window plans a run: the checkpoint, the bounds of the logs and the limits go in; the ranges to read, the gaps
// to record and the positions to store come out, or the error that stops the run.
//
// Contract: Make is pure. It changes nothing of its Input, asks nobody, and gives the same plan for the same input. A
// range begins at the position of the checkpoint or where a recorded gap ends, it ends at the end of the log that was
// seen, and no position goes back but in a topic that was recreated. Numbers that are needed and were not answered are
// an error; they are never taken for zero.
//
// Non-goals: limits by bytes and by time, which hold while reading; a log that was truncated and has grown beyond the
// checkpoint again, which only the leader epochs of what is read can show; whether a changed startingOffsets deserves
// a word in the report.
package window
