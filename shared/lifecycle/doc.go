// Package lifecycle lets running requests end when the platform stops an instance. functions-framework has no shutdown:
// without this, SIGTERM ends the process in the middle of a batch.
//
// A Drain tells the requests that it wraps to stop, waits for them, and exits. Nothing may depend on it: Cloud Run may
// kill an instance without a signal, and a run that is cut off anywhere loses nothing. What a drain saves is work that
// would be done again, and an error that nobody needs to look at.
//
// Not its job: to cancel a request's context, which would break the last commit off; to close clients.
package lifecycle
