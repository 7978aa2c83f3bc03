package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

const (
	// quietParents is the size of the quiet tenant.
	quietParents = 20
	// busyInterval is between two changes of the busy one, of which the API server can do more: behind a
	// queue of its own, no controller is quick.
	busyInterval = 6 * time.Millisecond
)

// runTenants measures the latency of a tenant with few parents, a namespace: alone, and while all parents
// in the namespace of another one change again and again. That takes half of the timeout at most: behind a
// queue without turns, an event may wait for seconds.
func (b *Bench) runTenants(ctx context.Context, c contender.Contender) (err error) {
	process, is := c.(contender.Process)
	if !is {
		return nil
	}
	t, err := b.begin(ctx, c, load.Work{Parents: quietParents, Children: 1, Round: "one"}, contender.Settings{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.create(ctx, ""); err != nil {
		return err
	}
	busy := t.otherTenant(Size{Parents: b.Busy, Children: 1}.work())
	defer func() { err = errors.Join(err, busy.cleanUp(ctx)) }()
	if err := busy.settle(ctx); err != nil {
		return err
	}
	var alone, beside []sample
	err = t.limited(ctx, "the quiet tenant alone", func(ctx context.Context) (err error) {
		t.awaitIdle(ctx)
		alone, err = t.sample(ctx, process, "alone", b.Timeout)
		return err
	})
	if err != nil {
		return err
	}
	err = t.limited(ctx, "the quiet tenant beside a busy one", func(ctx context.Context) error {
		return busy.changing(ctx, func(ctx context.Context) (err error) {
			beside, err = t.sample(ctx, process, "beside", b.Timeout/2)
			return err
		})
	})
	if err != nil {
		return err
	}
	values := tenantsValues(latencyValues(alone), latencyValues(beside))
	values["events"] = float64(len(beside))
	if process.Probe() == nil {
		for _, key := range []string{"alonecall99", "call50", "call99"} {
			delete(values, key)
		}
	}
	t.add(t.tenantsHead(), values)
	return nil
}

// otherTenant is another namespace of the same contender.
func (t *trial) otherTenant(work load.Work) *trial {
	work.Namespace = t.work.Namespace + "-busy"
	return &trial{bench: t.bench, contender: t.contender, work: work, generator: t.generator}
}

// settle creates the parents and waits until all is right.
func (t *trial) settle(ctx context.Context) error {
	return t.limited(ctx, "create the busy tenant", func(ctx context.Context) error {
		if err := t.observe(ctx); err != nil {
			return err
		}
		t.tracker.Expect(load.Goal{Work: t.work})
		if err := t.generator.Create(ctx, t.work); err != nil {
			return err
		}
		return t.tracker.Wait(ctx)
	})
}

// changing changes all parents again and again until do returns.
func (t *trial) changing(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan error, 1)
	go func() {
		work := t.work
		for round := 0; ctx.Err() == nil; round++ {
			work.Round = fmt.Sprint("round", round)
			if err := t.generator.ChangeOver(ctx, work, time.Duration(work.Parents)*busyInterval); err != nil && ctx.Err() == nil {
				changed <- fmt.Errorf("change the busy tenant: %w", err)
				return
			}
		}
		changed <- nil
	}()
	err := do(ctx)
	cancel()
	return errors.Join(err, <-changed)
}

func (t *trial) tenantsHead() report.Section {
	return report.Section{
		ID: Tenants,
		Title: fmt.Sprintf("8 a tenant with %d parents, alone and while %d parents of another one change, one every %s, at most %d events",
			quietParents, t.bench.Busy, busyInterval, t.bench.Samples),
		Columns: []report.Column{
			{Key: "alone99", Title: "alone: request → status p99", Unit: report.Millis},
			{Key: "events", Title: "beside: events", Unit: report.Count},
			{Key: "beside50", Title: "p50", Unit: report.Millis},
			{Key: "beside99", Title: "p99", Unit: report.Millis},
			{Key: "done", Title: "p99 ÷ alone", Unit: report.PerOne},
			{Key: "bare", Title: "request → event p99 ÷ alone", Unit: report.PerOne},
			{Key: "alonecall99", Title: "alone: event → call p99", Unit: report.Millis},
			{Key: "call50", Title: "beside: p50", Unit: report.Millis},
			{Key: "call99", Title: "p99", Unit: report.Millis},
		},
	}
}

// tenantsValues compares the latencies of the quiet tenant.
func tenantsValues(alone, beside map[string]float64) map[string]float64 {
	return map[string]float64{
		"alone99": alone["done99"], "beside50": beside["done50"], "beside99": beside["done99"],
		"done":        stats.Per(beside["done99"], alone["done99"]),
		"bare":        stats.Per(beside["bare99"], alone["bare99"]),
		"alonecall99": alone["event99"], "call50": beside["event50"], "call99": beside["event99"],
	}
}
