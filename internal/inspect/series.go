package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// A series has this many points of this length: ten minutes.
const (
	pointInterval = 5 * time.Second
	maxPoints     = 120
	// maxSamples bounds the durations for the median of a point.
	maxSamples = 64
)

// series holds the points of the last ten minutes in a ring.
type series struct {
	ring []Point
	// now is the number of the latest point since 1970. Its index is now modulo the length.
	now int64
	// took are samples of the latest point's durations, of seen in total.
	took []time.Duration
	seen int
}

// add counts a run in its point, or in the latest one if that is later.
func (s *series) add(run *Run) {
	s.advance(run.Began.Add(run.Took))
	p := &s.ring[s.now%maxPoints]
	p.Runs++
	if run.Outcome == record.Failed {
		p.Failed++
	}
	switch calls := slices.ContainsFunc(run.Steps, func(s Step) bool { return s.Call != nil }); {
	case !calls || run.Took <= 0:
		return
	case len(s.took) < maxSamples:
		s.took = append(s.took, run.Took)
	default:
		s.took[s.seen%maxSamples] = run.Took
	}
	s.seen++
}

func (s *series) advance(at time.Time) {
	number := max(at.Unix(), 0) / int64(pointInterval/time.Second)
	if s.ring == nil {
		s.ring, s.now = make([]Point, maxPoints), number
	}
	if number <= s.now {
		return
	}
	s.ring[s.now%maxPoints].Median = quantile(s.took, 0.5)
	s.took, s.seen = s.took[:0], 0
	for range min(number-s.now, maxPoints) {
		s.now++
		s.ring[s.now%maxPoints] = Point{}
	}
	s.now = number
	s.ring[s.now%maxPoints] = Point{}
}

// until returns the points up to a time.
func (s *series) until(now time.Time) Series {
	shown := Series{Every: pointInterval, Points: make([]Point, maxPoints)}
	if s.ring == nil {
		return shown
	}
	s.advance(now)
	for i := range maxPoints {
		shown.Points[i] = s.ring[(s.now+1+int64(i))%maxPoints]
	}
	shown.Points[maxPoints-1].Median = quantile(s.took, 0.5)
	return shown
}

// quantile returns the smallest duration that is not exceeded by the given part of all.
func quantile(of []time.Duration, part float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// maxCallSamples bounds the durations of the calls of a function.
const maxCallSamples = 256

type callKey struct{ what, outcome string }

type callCounter struct {
	count uint64
	// took are the latest durations.
	took []time.Duration
}

// callCounters count the calls of a controller by function and outcome.
type callCounters map[callKey]*callCounter

func (c callCounters) add(what, outcome string, took time.Duration) {
	name := callKey{what, outcome}
	t := c[name]
	if t == nil {
		t = &callCounter{}
		c[name] = t
	}
	if len(t.took) < maxCallSamples {
		t.took = append(t.took, took)
	} else {
		t.took[t.count%maxCallSamples] = took
	}
	t.count++
}

// CallOutcome returns the outcome of a function call.
func CallOutcome(err error) string {
	if err == nil {
		return "ok"
	}
	if _, later := hook.RetryDelay(err); later {
		return "retry"
	}
	if hook.IsTerminal(err) {
		return "terminal"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "error"
}

// stats returns the calls, sorted by name and outcome.
func (c callCounters) stats() []CallStats {
	names := slices.SortedFunc(maps.Keys(c), func(a, b callKey) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.outcome, b.outcome))
	})
	all := make([]CallStats, 0, len(names))
	for _, name := range names {
		t := c[name]
		all = append(all, CallStats{
			Name: name.what, Outcome: name.outcome, Count: t.count,
			P50: quantile(t.took, 0.5), P99: quantile(t.took, 0.99),
		})
	}
	return all
}
