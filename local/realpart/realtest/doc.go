// Package realtest gives tests the real parts of package realpart: one of each for a test process, started when the
// first test asks for it. Tests share it, so each keeps to a database or a project of its own name.
//
// A part that cannot be had fails the test where REQUIRE_REAL=1, as in CI, and skips it visibly elsewhere. A part that
// is there but does not come up always fails it.
package realtest
