// Package mongosink writes documents and dead letters to MongoDB. It implements the Sink of package pull.
//
// Mode insert: each document is inserted under its _id. Sending the same records again, in any batching, leaves the
// collection as it is. A taken _id is no proof by itself, because a record may bring any _id along, also one that looks
// like the coordinates of another record: the guards of the stored documents are read, once a batch, and a document
// counts as already there only if it came from the same record.
//
// All of this rests on an _id that is unique byte by byte. So before a client's first write both collections are
// inspected: a view, a time-series or capped collection and one with a default collation are refused.
//
// A nil error promises that a majority of the replica set holds every document that was not rejected. The write concern
// stands in each command, since the driver's RunCommand ignores the one of the URI; a weaker one in the URI is refused,
// because it could not be honoured.
//
// Commands are built by hand around documents that are BSON already, which costs a sixth of the driver's InsertMany.
// Errors are sorted by their code in one table, codes.go. A server's message may hold values of the record: it is kept
// in the dead letter and nowhere else.
//
// New opens no connection: a run that finds nothing to write never talks to MongoDB. The package does not create
// collections with options, indexes or validators, and knows nothing of Kafka or checkpoints.
package mongosink
