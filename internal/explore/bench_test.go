package explore_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
)

// BenchmarkExplore reports the states per second of one worker.
func BenchmarkExplore(b *testing.B) {
	states, seconds := 0, 0.0
	for b.Loop() {
		options := system(b, numbered)
		options.Workers = 1
		options.Edits = []explore.Edit{editOf("one", map[string]any{"size": 1}), editOf("other text", map[string]any{"text": "y"})}
		options.Bounds = explore.Bounds{Edits: 2, Crashes: 1, Faults: 1}
		report := run(b, options)
		states += report.States
		seconds += report.Seconds
		b.Logf("%d runs, %d deliveries, %d requests", report.Runs, report.Deliveries, report.Requests)
	}
	b.ReportMetric(float64(states)/seconds, "states/s")
}
