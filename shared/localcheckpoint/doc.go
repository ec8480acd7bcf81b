// Package localcheckpoint keeps lane documents where the program runs: in memory for tests, and in files as the embedded
// default for local use. Both implement lease.Store with one set of rules over two kinds of folder.
//
// A pipeline is a folder that a person can read and edit:
//
//	<dir>/<pipeline>.lock            taken with flock for every write, so that a killed process leaves no stale lock
//	<dir>/<pipeline>/pipeline.json   lanes, layout, identity, draining, number of audit entries, when it was created
//	<dir>/<pipeline>/lanes/0.json    the document of a lane: what package firecheckpoint stores, in the same names
//	<dir>/<pipeline>/runs/<run>.json the last 100 run reports
//	<dir>/<pipeline>/audit/<n>.json  what was done by other means than moving records; n has ten digits
//	<dir>/<pipeline>/.edit.json      an edit of several files, from the moment that it counts until all are written
//
// Each file is replaced as a whole: temporary file, fsync, rename, fsync of the folder. The revision of a document is
// the hash of its text, so an edit by hand is a new revision and the run that is under way loses its compare-and-set.
//
// What concerns several files is written to a journal first, as one file. That is when it counts: a reader prefers what
// the journal says, and the next writer finishes it if the process has died. A file that was deleted together with the
// journal that holds it is lost like any other.
//
// A document of an older schema is brought to the newest when it is read and stored so by the next write; one of a newer
// schema is refused, so what an older program does not know is never dropped by it.
//
// Non-goals: network file systems that ignore flock, Windows, and anything that has to outlive the machine. Cloud Run
// keeps nothing local, which is why configuration refuses these stores there.
package localcheckpoint
