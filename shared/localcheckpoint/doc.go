// Package localcheckpoint keeps lane documents where the program runs: in memory for tests, and in files as the embedded
// default for local use. Both implement lease.Store with one set of rules over two kinds of folder.
//
// A pipeline is a folder that a person can read and edit:
//
//	<dir>/<pipeline>.lock            taken with flock for every write, so that a killed process leaves no stale lock
//	<dir>/<pipeline>/pipeline.json   lanes, layout, identity, when it was created
//	<dir>/<pipeline>/lanes/0.json    the document of a lane: what package firecheckpoint stores, in the same names
//	<dir>/<pipeline>/runs/<run>.json the last 100 run reports
//
// Each file is replaced as a whole: temporary file, fsync, rename, fsync of the folder. The revision of a document is
// the hash of its text, so an edit by hand is a new revision and the run that is under way loses its compare-and-set.
//
// Non-goals: network file systems that ignore flock, Windows, and anything that has to outlive the machine. Cloud Run
// keeps nothing local, which is why configuration refuses these stores there.
package localcheckpoint
