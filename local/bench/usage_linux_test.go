package main

import (
	"os"
	"testing"
	"time"
)

func TestParseCPU_NameMayHoldAnything(t *testing.T) {
	t.Parallel()
	got, ok := parseCPU([]byte("7 (a) b (c) R 1 1 1 0 -1 4194304 98 0 0 0 150 25 0 0 20 0 1 0 381676"))
	if want := 1750 * time.Millisecond; got != want || !ok {
		t.Errorf("got %s (%t), expected %s", got, ok, want)
	}
}

func TestParse_WhatIsMissingIsNotKnown(t *testing.T) {
	t.Parallel()
	if _, ok := parseCPU([]byte("7 (a) R 1 1")); ok {
		t.Error("a short line gave a time")
	}
	if _, ok := parsePeak([]byte("Name:\ta\nVmRSS:\t12 kB\n")); ok {
		t.Error("a status without a peak gave one")
	}
}

func TestUsageOf_ThisProcess(t *testing.T) {
	t.Parallel()
	if u := usageOf(os.Getpid()); !u.known || u.peak < 1<<20 {
		t.Errorf("got %+v", u)
	}
}

func TestUsageOf_NoProcessIsNotKnown(t *testing.T) {
	t.Parallel()
	if u := usageOf(-1); u.known {
		t.Errorf("got %+v", u)
	}
}
