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

// sharedName is the ConfigMap that all parents of the related scenario read.
const sharedName = "shared"

// runRelated has a contender settle parents that all read one ConfigMap, and
// changes that.
func (b *Bench) runRelated(ctx context.Context, c contender.Contender) (err error) {
	process, ok := c.(contender.Process)
	if !ok || !process.Reads() {
		return nil
	}
	work := b.Sizes[0].work()
	work.Shared = sharedName
	t, err := b.begin(ctx, c, work, contender.Settings{Related: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.generator.ChangeShared(ctx, t.work, "shared-0"); err != nil {
		return fmt.Errorf("create what all parents read: %w", err)
	}
	if err := t.create(ctx, ""); err != nil {
		return err
	}
	return t.limited(ctx, Related, func(ctx context.Context) error { return t.related(ctx, process) })
}

// spread is one change's way to all parents.
type spread struct {
	// took is the time from the request that changes the ConfigMap to the call
	// for the last parent, bare that of as many calls by the load generator.
	took, bare time.Duration
	*outcome
}

// related lets calls by the contender and bare ones take turns, so that both
// meet the same machine.
func (t *trial) related(ctx context.Context, process contender.Process) error {
	rounds := make([]spread, t.bench.Changes)
	for n := range rounds {
		var err error
		if rounds[n], err = t.changeShared(ctx, process, fmt.Sprintf("shared-%d", n+1)); err != nil {
			return fmt.Errorf("change %d: %w", n, err)
		}
		if rounds[n].bare, err = t.bareCalls(ctx, process); err != nil {
			return fmt.Errorf("bare calls: %w", err)
		}
	}
	t.add(t.relatedHead(), t.relatedValues(rounds))
	return t.tracker.Check()
}

func (t *trial) changeShared(ctx context.Context, process contender.Process, value string) (s spread, err error) {
	if err := process.Probe().Arm(ctx, value, t.work.Parents); err != nil {
		return s, err
	}
	s.outcome, err = t.gauge(ctx, func(*outcome) error {
		since := time.Now()
		if err := t.generator.ChangeShared(ctx, t.work, value); err != nil {
			return err
		}
		last, err := process.Probe().Entered(ctx, value)
		if err != nil {
			return fmt.Errorf("wait until all parents have been shown the change: %w", errors.Join(err, context.Cause(ctx)))
		}
		s.took = last.Sub(since)
		t.awaitIdle(ctx)
		return nil
	})
	return s, err
}

// bareCalls makes as many calls of the hook as there are parents, each with what
// the contender has sent it last.
func (t *trial) bareCalls(ctx context.Context, process contender.Process) (time.Duration, error) {
	hooked, ok := process.(contender.Hooked)
	if !ok {
		return 0, nil
	}
	body, err := hooked.Probe().Body(ctx)
	if err != nil {
		return 0, err
	}
	caller := load.Caller{URL: hooked.HookURL(), Body: body, Workers: t.bench.Workers}
	return caller.Call(ctx, t.work.Parents)
}

func (t *trial) relatedHead() report.Section {
	columns := []report.Column{
		{Key: "time", Title: "request → all called", Unit: report.Seconds, Ratio: true},
		{Key: "bare", Title: "bare calls", Unit: report.Seconds},
		{Key: "÷bare", Title: "÷ bare", Unit: report.PerOne},
	}
	columns = append(columns, requestColumns(report.Count)...)
	return report.Section{
		ID:    Related,
		Title: fmt.Sprintf("4 one ConfigMap changes that %d parents read, median of %d", t.work.Parents, t.bench.Changes),
		Columns: append(columns,
			report.Column{Key: "calls", Title: "calls per parent", Unit: report.PerOne},
			report.Column{Key: "customized", Title: "customize calls", Unit: report.Count},
			report.Column{Key: "cpu", Title: "CPU per parent", Unit: report.Millis, Ratio: true},
			report.Column{Key: "rss", Title: "RSS", Unit: report.MiB}),
	}
}

// relatedValues are medians, and per change.
func (t *trial) relatedValues(rounds []spread) map[string]float64 {
	median := func(of func(spread) float64) float64 {
		all := make([]float64, len(rounds))
		for i, s := range rounds {
			all[i] = of(s)
		}
		return stats.Median(all)
	}
	parents := float64(t.work.Parents)
	values := map[string]float64{
		"time":       median(func(s spread) float64 { return s.took.Seconds() }),
		"calls":      median(func(s spread) float64 { return float64(s.after.Calls-s.before.Calls) / parents }),
		"customized": median(func(s spread) float64 { return float64(s.after.CustomizeCalls - s.before.CustomizeCalls) }),
		"cpu":        median(func(s spread) float64 { return stats.Millis(s.after.CPU-s.before.CPU) / parents }),
		"rss":        mib(rounds[len(rounds)-1].after.RSS),
	}
	addRequests(values, rounds[len(rounds)-1].requests, 1)
	if rounds[0].bare > 0 {
		values["bare"] = median(func(s spread) float64 { return s.bare.Seconds() })
		values["÷bare"] = median(func(s spread) float64 { return s.took.Seconds() / s.bare.Seconds() })
	}
	return values
}
