// Package realpart starts the real parts that the demo and the tests run beside: a mongod that is a replica set of
// one, Google's Firestore emulator, and an Apache Kafka of one broker.
//
// Each part is looked for in the same order: an address in the environment (then nothing is started), a program that
// is installed, and for Kafka, and for mongod on Linux x86-64, a download that is pinned by version and sha256 and kept in
// the user's cache. A part that cannot be had is an error of one line, ErrNotFound, that says how to get it.
//
// A started part ends with Stop. On Linux it also ends with the process that started it, however that dies.
//
// It is no part of the deployed function, and no client library of the parts is linked here: the few administrative
// commands that start a replica set are sent by hand.
package realpart
