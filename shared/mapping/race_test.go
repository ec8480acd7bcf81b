//go:build race

package mapping

// raceDetector says that this build is some ten times slower, and that a sync.Pool drops what it is given at random.
const raceDetector = true
