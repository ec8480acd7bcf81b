// Package fault holds the four kinds of error that Tidemark knows.
//
// A kind is chosen once, at the adapter where the vendor's error is known. Package pull alone decides what a kind
// means for a run, and the HTTP handler maps it to a status. The messages are read by operators: they name the thing,
// the numbers and the next step, and never hold a payload or a credential.
package fault
