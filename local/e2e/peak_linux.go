package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// peakOf is the most that a process ever had resident, from the line "VmHWM:   12345 kB" of /proc; 0 if it is not known.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.ParseInt(string(fields[0]), 10, 64) // 0 where it is no number
	return kilobytes << 10
}
