package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

// steady resyncs settled parents for two periods.
func (t *trial) steady(ctx context.Context, process contender.Process) error {
	if err := t.resyncing(ctx, process); err != nil {
		return err
	}
	window := 2 * t.bench.Resync
	out, err := t.gauge(ctx, func(*outcome) error { return pause(ctx, window) })
	if err != nil {
		return err
	}
	if err := t.tracker.Check(); err != nil {
		return err
	}
	calls := float64(out.after.Calls - out.before.Calls)
	values := map[string]float64{
		"calls": calls / float64(t.work.Parents),
		"each":  stats.Per(stats.Millis(out.after.CPU-out.before.CPU), calls),
		"rss":   mib(out.after.RSS),
	}
	addRequests(values, out.requests, 1)
	t.add(report.Section{
		ID:    Steady,
		Title: fmt.Sprintf("2 steady state, %d parents resynced every %s, for %s", t.work.Parents, t.bench.Resync, window),
		Columns: append(requestColumns(report.Count),
			report.Column{Key: "calls", Title: "calls per parent", Unit: report.PerOne},
			report.Column{Key: "each", Title: "CPU per call", Unit: report.Millis, Ratio: true},
			report.Column{Key: "rss", Title: "RSS", Unit: report.MiB}),
	}, values)
	return nil
}

// resyncing starts the contender again, resyncing, and waits until it has
// looked at every parent once: what a start costs is not what a resync costs.
func (t *trial) resyncing(ctx context.Context, process contender.Process) error {
	if err := process.Stop(); err != nil {
		return err
	}
	before := int64(0)
	if stats, err := process.Probe().Stats(ctx); err == nil {
		before = stats.Calls // of a hook, which stays
	}
	if _, err := process.Start(ctx, contender.Settings{Resync: t.bench.Resync}); err != nil {
		return err
	}
	err := cluster.Poll(ctx, "each parent to be resynced", func() (bool, error) {
		stats, err := process.Probe().Stats(ctx)
		return stats.Calls-before >= int64(t.work.Parents), err
	})
	if err != nil {
		return err
	}
	return pause(ctx, lastWrites)
}

// lastWrites is the time that the last of many calls at once have to be followed by
// what they have written: calls are counted when they begin.
const lastWrites = time.Second

// restart starts the contender with everything settled.
func (t *trial) restart(ctx context.Context, process contender.Process) error {
	if err := process.Stop(); err != nil {
		return err
	}
	before, err := cluster.Count(ctx, t.bench.Admin)
	if err != nil {
		return err
	}
	calls := int64(0)
	if stats, err := process.Probe().Stats(ctx); err == nil {
		calls = stats.Calls
	}
	since := time.Now()
	ready, err := process.Start(ctx, contender.Settings{})
	if err != nil {
		return err
	}
	t.awaitIdle(ctx)
	reading, err := process.Read(ctx)
	if err != nil {
		return err
	}
	after, err := cluster.Count(ctx, t.bench.Admin)
	if err != nil {
		return err
	}
	values := map[string]float64{
		"ready": ready.Seconds(),
		"calls": float64(reading.Calls - calls),
		"cpu":   reading.CPU.Seconds(),
		"rss":   mib(reading.RSS),
		"peak":  mib(reading.Peak),
	}
	if reading.LastCall.After(since) {
		values["settled"] = reading.LastCall.Sub(since).Seconds()
	}
	addRequests(values, after.Sub(before), 1)
	t.add(restartHead(t.size()), values)
	return t.tracker.Check()
}

func restartHead(size Size) report.Section {
	columns := append([]report.Column{
		{Key: "ready", Title: "ready", Unit: report.Seconds, Ratio: true},
		{Key: "settled", Title: "last call", Unit: report.Seconds},
	}, requestColumns(report.Count)...)
	return report.Section{
		ID:    Restart + "-" + size.String(),
		Title: "7 restart with " + size.title() + " settled",
		Columns: append(columns,
			report.Column{Key: "calls", Title: "calls", Unit: report.Count},
			report.Column{Key: "cpu", Title: "CPU", Unit: report.Seconds, Ratio: true},
			report.Column{Key: "rss", Title: "RSS after", Unit: report.MiB},
			report.Column{Key: "peak", Title: "RSS peak", Unit: report.MiB, Ratio: true}),
	}
}

// pause lets a measured time pass.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
