package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// idleTime is between one event and the next, so that each finds everybody idle.
const idleTime = 30 * time.Millisecond

// sample is one change's way, each from the moment the request was sent.
type sample struct {
	// response is when the API server responded, event when a bare watch showed the
	// change, call when the contender was about to deal with it, done when that watch
	// showed the status.
	response, event, call, done time.Duration
}

// latency changes one parent at a time.
func (t *trial) latency(ctx context.Context, process contender.Process) error {
	t.awaitIdle(ctx)
	samples, err := t.sample(ctx, process, Latency, t.bench.Timeout)
	if err != nil {
		return err
	}
	values := latencyValues(samples)
	if process.Probe() == nil {
		for _, key := range []string{"call50", "call99", "event50", "event99"} {
			delete(values, key)
		}
	}
	t.add(latencyHead(len(samples)), values)
	return nil
}

// sample changes one parent after the other for at most a time. Round is the beginning of their values.
func (t *trial) sample(ctx context.Context, process contender.Process, round string, most time.Duration) (samples []sample, err error) {
	for since := time.Now(); len(samples) < t.bench.Samples && time.Since(since) < most; {
		one, err := t.changeOne(ctx, process, round, len(samples))
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", len(samples), err)
		}
		samples = append(samples, one)
		if err := pause(ctx, idleTime); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func latencyHead(samples int) report.Section {
	return report.Section{
		ID:    Latency,
		Title: fmt.Sprintf("6 latency when idle, %d events", samples),
		Columns: []report.Column{
			{Key: "done50", Title: "request → status p50", Unit: report.Millis, Ratio: true},
			{Key: "done99", Title: "p99", Unit: report.Millis, Ratio: true},
			{Key: "call50", Title: "request → call p50", Unit: report.Millis, Ratio: true},
			{Key: "call99", Title: "p99", Unit: report.Millis, Ratio: true},
			{Key: "event50", Title: "event → call p50", Unit: report.Millis},
			{Key: "event99", Title: "p99", Unit: report.Millis},
			{Key: "bare50", Title: "request → event p50", Unit: report.Millis},
			{Key: "bare99", Title: "p99", Unit: report.Millis},
			{Key: "response50", Title: "request → response p50", Unit: report.Millis},
		},
	}
}

func latencyValues(samples []sample) map[string]float64 {
	percentile := func(p float64, of func(sample) time.Duration) float64 {
		all := make([]time.Duration, len(samples))
		for i, s := range samples {
			all[i] = of(s)
		}
		return stats.Millis(stats.Percentile(all, p))
	}
	call := func(s sample) time.Duration { return s.call }
	bare := func(s sample) time.Duration { return s.event }
	// Negative when our own watch is served after the contender's.
	event := func(s sample) time.Duration { return s.call - s.event }
	done := func(s sample) time.Duration { return s.done }
	return map[string]float64{
		"done50":     percentile(50, done),
		"done99":     percentile(99, done),
		"call50":     percentile(50, call),
		"call99":     percentile(99, call),
		"event50":    percentile(50, event),
		"event99":    percentile(99, event),
		"bare50":     percentile(50, bare),
		"bare99":     percentile(99, bare),
		"response50": percentile(50, func(s sample) time.Duration { return s.response }),
	}
}

// changeOne changes a parent and follows the change to the call, and on to the
// status, after which all is quiet again.
func (t *trial) changeOne(ctx context.Context, process contender.Process, round string, n int) (sample, error) {
	value := fmt.Sprintf("%s-%d", round, n)
	calls := process.Probe()
	if calls != nil {
		if err := calls.Arm(ctx, value, 1); err != nil {
			return sample{}, err
		}
	}
	awaited := t.arrivals.await(value, t.work.Children)
	since := time.Now()
	if err := t.generator.ChangeOne(ctx, t.work.Namespace, thing.Name(n%t.work.Parents), value); err != nil {
		return sample{}, err
	}
	replied := time.Now()
	select {
	case <-awaited.settled:
	case <-ctx.Done():
		return sample{}, fmt.Errorf("status of %s: %w", thing.Name(n%t.work.Parents), context.Cause(ctx))
	}
	s := sample{response: replied.Sub(since), event: awaited.at.Sub(since), done: awaited.settledAt.Sub(since)}
	if calls == nil {
		return s, nil
	}
	entered, err := calls.Entered(ctx, value)
	s.call = entered.Sub(since)
	return s, err
}

// arrivals notes when the change of one parent arrives at the load generator.
type arrivals struct {
	mu      sync.Mutex
	awaited *arrival
}

type arrival struct {
	value string
	ready int
	// at is when the change was first seen, settledAt when the status was; set before settled is closed.
	at, settledAt time.Time
	settled       chan struct{}
	done          bool
}

// await forgets what was awaited before.
func (a *arrivals) await(value string, ready int) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.awaited = &arrival{value: value, ready: ready, settled: make(chan struct{})}
	return a.awaited
}

func (a *arrivals) see(s load.Observation, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.awaited
	if w == nil || w.done || s.Child || s.Wanted != w.value {
		return
	}
	if w.at.IsZero() {
		w.at = at
	}
	if s.Value == w.value && s.Ready == w.ready {
		w.done, w.settledAt = true, at
		close(w.settled)
	}
}
