// Package pull is the story of a run: Runner.Run reads it from top to bottom. It takes the lane's checkpoint, asks
// Kafka for the ends, plans a window, takes the lease, reads, converts and writes, and moves the checkpoint over what
// was acknowledged. It declares the interfaces that it needs and knows no vendor.
package pull
