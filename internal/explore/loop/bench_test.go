package loop_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
)

// Steps and deliveries of a rolling update of three pods, with responses of the hook that are known.
func BenchmarkRollout(b *testing.B) {
	w := newRollingSet(b, loop.Options{Memo: rollouts})
	w.settle()
	w.setImage("b")
	event := w.events[0]
	b.Run("deliver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.process.Deliver(b.Context(), w.view, event)
		}
	})
	w.deliver()
	run := loop.Run{Item: w.items[0], View: w.view}
	b.Run("step", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.process.Step(b.Context(), run)
		}
	})
	b.Run("digest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.process.Digest(run)
		}
	})
}
