package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"time"
)

// limit returns which limit is reached; empty if none is.
func (s *search) limit(ctx context.Context) string {
	bounds := s.options.Bounds
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the time is over (%s)", bounds.Time)
	case ctx.Err() != nil:
		return "it was interrupted"
	case len(s.nodes) >= bounds.States:
		return fmt.Sprintf("the limit of states is reached (%d)", bounds.States)
	case heap() >= bounds.Memory:
		return fmt.Sprintf("the limit of memory is reached (%d MiB)", bounds.Memory>>20)
	}
	return ""
}

// heap returns the bytes of live objects and of those that are still to be collected.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// showProgress reports how far the search is, about every second.
func (s *search) showProgress() {
	if time.Since(s.shown) < pace {
		return
	}
	s.shown = time.Now()
	s.options.Progress(Progress{States: len(s.nodes), Deviations: s.layer, All: len(s.pending) - 1, Depth: s.depth,
		Elapsed: time.Since(s.began)})
}

// pace is how often limits are looked at and progress is shown, also while hooks are slow.
const pace = time.Second

// Progress is how far a search is.
type Progress struct {
	States int
	// Deviations is the number of edits, crashes and faults that is being explored, of All.
	Deviations, All int
	Depth           int
	Elapsed         time.Duration
}

// String returns such as "12000 states, 6000/s, depth 14, 1 of 3 edits, crashes and faults".
func (p Progress) String() string {
	return fmt.Sprintf("%d states, %.0f/s, depth %d, %d of %d edits, crashes and faults",
		p.States, float64(p.States)/max(p.Elapsed.Seconds(), 0.001), p.Depth, p.Deviations, p.All)
}
