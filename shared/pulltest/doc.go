// Package pulltest is for tests only: in-memory Source and Sink, decorators that inject faults, conformance suites that
// run on the fakes and on the real parts alike, and Fsck, which says whether a collection is what its topics make of it.
//
// A fake holds state and follows the contract of the interface it stands for; the suite of that interface is what proves
// it. Nothing here is imported by a program.
package pulltest
