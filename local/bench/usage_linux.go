package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of the times in /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on (proc_pid_stat(5)).
const tick = time.Second / 100

// usageOf reads what a process has used from /proc.
func usageOf(pid int) usage {
	stat, statErr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	status, statusErr := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if statErr != nil || statusErr != nil {
		return usage{}
	}
	cpu, cpuKnown := parseCPU(stat)
	peak, peakKnown := parsePeak(status)
	return usage{known: cpuKnown && peakKnown, cpu: cpu, peak: peak}
}

// parseCPU adds the fields utime and stime, which are the 14th and 15th. The second, the name, may hold anything, so
// they are counted from its end.
func parseCPU(stat []byte) (time.Duration, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, userErr := strconv.ParseInt(string(fields[11]), 10, 64)
	system, systemErr := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, userErr == nil && systemErr == nil
}

// parsePeak reads the line "VmHWM:   12345 kB".
func parsePeak(status []byte) (int64, bool) {
	_, rest, found := bytes.Cut(status, []byte("\nVmHWM:"))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 2 {
		return 0, false
	}
	kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kilobytes << 10, err == nil
}
