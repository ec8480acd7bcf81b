// Package terminal is what the programs of local/ print with.
package terminal

import (
	"io"
	"os"
	"strconv"
)

// Is says whether a line can be drawn over.
func Is(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Thousands writes a number with its digits in groups of three.
func Thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
