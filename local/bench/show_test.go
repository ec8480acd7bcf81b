package main

import (
	"testing"
	"time"

	"github.com/tidemark/tidemark/local/terminal"
)

func TestRatios_CompareWithinAPair(t *testing.T) {
	t.Parallel()
	used := func(cpu time.Duration) usage { return usage{known: true, cpu: cpu} }
	steady, cpu := ratios([]result{
		{what: "function", pair: 1, steady: 30, worker: used(8)},
		{what: "ceiling", pair: 1, steady: 60, worker: used(2)},
		{what: "ceiling", pair: 2, steady: 20, worker: used(1)},
		{what: "function", pair: 2, steady: 18, worker: used(5)},
		{what: "ceiling", writers: 1, steady: 1, worker: used(1)},
	})
	if got, want := spread(steady), "0.70 (0.50..0.90)"; got != want {
		t.Errorf("steady: got %s, expected %s", got, want)
	}
	if got, want := spread(cpu), "4.50 (4.00..5.00)"; got != want {
		t.Errorf("cpu: got %s, expected %s", got, want)
	}
}

func TestRatios_WithoutUsageHaveNoCPU(t *testing.T) {
	t.Parallel()
	if _, cpu := ratios([]result{{what: "function", pair: 1, steady: 1}, {what: "ceiling", pair: 1, steady: 1}}); len(cpu) > 0 {
		t.Errorf("got %v, expected none", cpu)
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := terminal.Thousands(n); got != want {
			t.Errorf("%d: got %s, expected %s", n, got, want)
		}
	}
}
