package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

// runOutage takes the hook away from a contender that has settled its parents,
// changes every parent meanwhile, and brings the hook back.
func (b *Bench) runOutage(ctx context.Context, c contender.Contender) (err error) {
	hooked, ok := c.(contender.Hooked)
	if !ok {
		return nil
	}
	t, err := b.begin(ctx, c, b.Sizes[0].work(), contender.Settings{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.create(ctx, ""); err != nil {
		return err
	}
	during, err := t.stopHook(ctx, hooked)
	if err != nil {
		return fmt.Errorf("%s: the hook is away: %w", c.Name(), err)
	}
	return t.limited(ctx, Outage, func(ctx context.Context) error { return t.restartHook(ctx, hooked, during) })
}

// hookOutage is what the contender did without its hook.
type hookOutage struct {
	cpu      time.Duration
	requests cluster.Requests
}

// stopHook changes all parents, spread over the time of the outage.
func (t *trial) stopHook(ctx context.Context, hooked contender.Hooked) (*hookOutage, error) {
	before, err := hooked.ReadProcess()
	if err != nil {
		return nil, err
	}
	requests, err := cluster.Count(ctx, t.bench.Admin)
	if err != nil {
		return nil, err
	}
	if err := hooked.StopHook(); err != nil {
		return nil, err
	}
	t.work.Round = "two"
	t.tracker.Expect(load.Goal{Work: t.work})
	if err := t.generator.ChangeOver(ctx, t.work, t.bench.Outage); err != nil {
		return nil, err
	}
	after, err := hooked.ReadProcess()
	if err != nil {
		return nil, err
	}
	now, err := cluster.Count(ctx, t.bench.Admin)
	return &hookOutage{cpu: after.CPU - before.CPU, requests: now.Sub(requests)}, err
}

// restartHook measures from the moment the hook is started.
func (t *trial) restartHook(ctx context.Context, hooked contender.Hooked, during *hookOutage) error {
	before, err := hooked.ReadProcess()
	if err != nil {
		return err
	}
	since := time.Now()
	if err := hooked.StartHook(ctx); err != nil {
		return err
	}
	if err := t.tracker.Wait(ctx); err != nil {
		return err
	}
	t.awaitIdle(ctx)
	after, err := hooked.Read(ctx)
	if err != nil {
		return err
	}
	parents := float64(t.work.Parents)
	values := map[string]float64{
		"time":  t.tracker.ReachedAt().Sub(since).Seconds(),
		"first": after.FirstCall.Sub(since).Seconds(),
		"calls": float64(after.Calls) / parents,
		"cpu":   stats.Millis(after.CPU-before.CPU) / parents,
		"away":  during.cpu.Seconds(),
		"peak":  mib(after.Peak),
	}
	addRequests(values, during.requests, 1)
	t.add(t.outageHead(), values)
	return t.tracker.Check()
}

func (t *trial) outageHead() report.Section {
	columns := []report.Column{
		{Key: "time", Title: "hook back → all recovered", Unit: report.Seconds},
		{Key: "first", Title: "→ first call", Unit: report.Seconds},
		{Key: "calls", Title: "calls per parent", Unit: report.PerOne},
		{Key: "cpu", Title: "CPU per parent", Unit: report.Millis},
		{Key: "away", Title: "CPU without hook", Unit: report.Seconds},
		{Key: "peak", Title: "RSS peak", Unit: report.MiB},
	}
	return report.Section{
		ID: Outage,
		Title: fmt.Sprintf("5 hook away for %s, %d parents changed meanwhile (requests: of that time)",
			t.bench.Outage, t.work.Parents),
		Columns: append(columns, requestColumns(report.Count)...),
	}
}
