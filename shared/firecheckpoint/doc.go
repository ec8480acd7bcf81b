// Package firecheckpoint keeps lane documents in Firestore. It implements lease.Store.
//
//	{collection}/{pipeline}               lanes, layout, identity, when it was created
//	{collection}/{pipeline}/lanes/{lane}  the document of a lane
//	{collection}/{pipeline}/runs/{run}    run reports, with expireAt for a TTL policy
//
// Every write of a lane is one Commit with the update time that was read as its precondition: no locks, no second round
// trip. A Commit is sent once and never again by the client, because the second answer of a first one that was stored
// would be a refusal, and Conflict promises that nothing was stored.
//
// Fields of a document that this program does not know are kept where no write touches them, at the top, and refused
// where a write would lose them, below.
//
// Non-goals: retries (package pull has the budget), listeners, queries over pipelines. Times are Firestore's own, except
// expireAt, which needs no precision.
package firecheckpoint
