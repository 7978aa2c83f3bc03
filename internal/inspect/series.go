package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// A series has so many points, each of so long: ten minutes in all.
const (
	pointTime = 5 * time.Second
	points    = 120
	// sampled is how many durations of a point its median is taken of, remembered
	// how many those of calls are.
	sampled    = 64
	remembered = 256
)

// count is what one run adds.
type count struct {
	at            time.Time
	failed        bool
	calls, writes uint32
	// took is zero for one that asked nobody.
	took time.Duration
}

// series are the points of the last minutes, in a ring.
type series struct {
	ring []Point
	// now is the number of the latest point since 1970; it is at now modulo the length.
	now int64
	// took are samples of the latest point, of seen in all.
	took []time.Duration
	seen int
}

// add counts a run in its point. One that ended before the latest point counts there.
func (s *series) add(c count) {
	s.advance(c.at)
	p := &s.ring[s.now%points]
	p.Runs++
	p.Calls += c.calls
	p.Writes += c.writes
	if c.failed {
		p.Failed++
	}
	if c.took <= 0 {
		return
	}
	p.Longest = max(p.Longest, c.took)
	if len(s.took) < sampled {
		s.took = append(s.took, c.took)
	} else {
		s.took[s.seen%sampled] = c.took
	}
	s.seen++
}

// advance begins the point of a moment, if it is yet to begin.
func (s *series) advance(at time.Time) {
	number := max(at.Unix(), 0) / int64(pointTime/time.Second)
	if s.ring == nil {
		s.ring, s.now = make([]Point, points), number
	}
	if number <= s.now {
		return
	}
	s.ring[s.now%points].Median = median(s.took)
	s.took, s.seen = s.took[:0], 0
	for range min(number-s.now, points) {
		s.now++
		s.ring[s.now%points] = Point{}
	}
	s.now = number
	s.ring[s.now%points] = Point{}
}

// until are the points up to a moment, which has the last one.
func (s *series) until(now time.Time) Series {
	shown := Series{Every: pointTime, Points: make([]Point, points)}
	if s.ring == nil {
		return shown
	}
	s.advance(now)
	for i := range points {
		shown.Points[i] = s.ring[(s.now+1+int64(i))%points]
	}
	shown.Points[points-1].Median = median(s.took)
	return shown
}

func median(of []time.Duration) time.Duration { return quantile(of, 0.5) }

// quantile is the least of some durations that so large a part of them do not exceed.
func quantile(of []time.Duration, part float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// callName is what was called, and how that ended.
type callName struct{ what, outcome string }

// tally counts the calls of one callName.
type tally struct {
	count uint64
	// took are the latest durations.
	took []time.Duration
}

func (s *shelf) called(what, outcome string, took time.Duration) {
	name := callName{what, outcome}
	t := s.calls[name]
	if t == nil {
		t = &tally{}
		s.calls[name] = t
	}
	if len(t.took) < remembered {
		t.took = append(t.took, took)
	} else {
		t.took[t.count%remembered] = took
	}
	t.count++
}

// asked counts the calls of hooks that are functions of this process.
func (s *shelf) asked(run *trace.Run) {
	if s.remote {
		return
	}
	for i := range run.Steps {
		ask := run.Steps[i].Ask
		if ask != nil && (ask.Question.Sync != nil || ask.Question.Customize != nil) {
			s.called(ask.What, Ended(ask.Err), run.Steps[i].Took)
		}
	}
}

// Ended is how a call of a function went, in a word.
func Ended(err error) string {
	if err == nil {
		return "ok"
	}
	if _, later := hook.Postponed(err); later {
		return "retry"
	}
	if hook.Terminal(err) {
		return "terminal"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "error"
}

// callsInWords are the calls, by what was called and how that ended.
func (s *shelf) callsInWords() []Calls {
	names := slices.SortedFunc(maps.Keys(s.calls), func(a, b callName) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.outcome, b.outcome))
	})
	all := make([]Calls, 0, len(names))
	for _, name := range names {
		t := s.calls[name]
		all = append(all, Calls{
			What: name.what, Outcome: name.outcome, Count: t.count,
			P50: quantile(t.took, 0.5), P99: quantile(t.took, 0.99),
		})
	}
	return all
}
