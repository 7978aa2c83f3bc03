package explore_test

import (
	"syscall"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// BenchmarkRemembered reports the states per second of processor time when all steps are remembered, with the checks
// of the graph.
func BenchmarkRemembered(b *testing.B) {
	states, seconds := 0, 0.0
	for b.Loop() {
		options := system(b, numbered)
		options.Workers = 1
		options.Edits = []world.Edit{editOf("one", map[string]any{"size": 1}), editOf("other text", map[string]any{"text": "y"})}
		options.Bounds = explore.Bounds{Edits: 2, Crashes: 1, Faults: 2}
		began := 0.0
		report, err := explore.ExploreTwice(b.Context(), options, func() { began = processorSeconds(b) })
		if err != nil {
			b.Fatal(err)
		}
		seconds += processorSeconds(b) - began
		states += report.States
	}
	b.ReportMetric(float64(states)/seconds, "states/s")
}

// processorSeconds returns the processor time of this process, which others do not change.
func processorSeconds(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
