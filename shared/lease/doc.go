// Package lease holds the document of one lane for one run: it takes the lease, renews it, stores progress by
// compare-and-set, finds out what became of a write whose answer was lost, and tells when the lease is gone.
//
// Times are the store's, never the client's clock. Losing the lease cancels the context that reads and writes; what a
// zombie still writes is harmless by the promises of package mongosink, and its commits are refused by the store.
//
// The lanes of a pipeline change while no lease is alive. Until then the pipeline drains: its mark stands in every lane
// document, so that whoever reads one sees it, whoever is taking a lease fails its compare-and-set, and whoever holds one
// is told (Lane.Draining), keeps it until it is released, and releases it soon.
package lease
