// Package mongosink writes documents and dead letters to MongoDB. It implements the Sink of package pull.
//
// Mode insert: each document is inserted under its _id, and the first one stays. Sending the same records again, in any
// batching, leaves the collection as it is. A taken _id is no proof by itself, because a record may bring any _id along,
// also one that looks like the coordinates of another record: the guards of the stored documents are read, once a batch,
// and a document counts as already there only if it came from the same record.
//
// Mode upsert replaces the document of an _id, mode update sets its top-level fields, where the record is newer than the
// stored guard. The server decides that, in the update itself, so it holds whoever writes at the same time. Any order of
// delivery that keeps that of each partition ends in the same document; in update this is so for keys that stay in one
// partition, since the fields of a record that came too late are not merged. A refused older record is a duplicate.
//
// Within a batch the writes of one _id take effect in order, and ids are compared as MongoDB compares them. In upsert a
// record is not sent if a later one of its partition in the batch replaces it; it counts as written, also where the
// server would have refused it, and is sent after all if the later one is refused.
//
// Deletions (Options.Deletes) keep the guards of deleted keys in the collection "<collection>_deleted", so that an older
// record never brings a document back. Puts then end with the deadline of their ctx, by mongod's clock: what reaches the
// server later is refused and has no effect. docs/adr/0009-deletes.md argues why that is enough.
//
// All of this rests on an _id that is unique byte by byte. So before a client's first write the collections are
// inspected: a view, a time-series or capped collection and one with a default collation are refused, and in the keyed
// modes one that is sharded on another key than _id.
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
// collections with options, validators or indexes, but for the one that lets guards of deletions expire, and knows
// nothing of Kafka or checkpoints.
package mongosink
