//go:build !race

package mapping

const raceDetector = false
