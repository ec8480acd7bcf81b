// Package firecheckpoint keeps lane documents in Firestore. It implements lease.Store.
//
//	{collection}/{pipeline}               lanes, layout, identity, draining, number of audit entries, when it was created
//	{collection}/{pipeline}/lanes/{lane}  the document of a lane
//	{collection}/{pipeline}/runs/{run}    run reports, with expireAt for a TTL policy
//	{collection}/{pipeline}/audit/{n}     what was done by other means than moving records; n has ten digits, and stays
//
// Every write of a lane is one Commit with the update time that was read as its precondition: no locks, no second round
// trip. A Commit is sent once and never again by the client, because the second answer of a first one that was stored
// would be a refusal, and Conflict promises that nothing was stored.
//
// What concerns several lanes is one transaction over the pipeline's document and those of all lanes (Edit). It locks what
// it read or looks at it again, so no lease is taken and none renewed between its read and its write. Firestore bounds it
// by bytes, 1 MiB a document and 10 MiB a request, which is refused before it is sent.
//
// A document of an older schema is brought to the newest when it is read and stored so by the next write; one of a newer
// schema is refused, so what an older program does not know is never dropped by it.
//
// Fields of a document that this program does not know are kept where no write touches them, at the top, and refused
// where a write would lose them, below.
//
// Non-goals: retries (package pull has the budget), listeners, queries over pipelines. Times are Firestore's own, except
// expireAt, which needs no precision.
package firecheckpoint
