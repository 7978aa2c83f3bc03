package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

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
