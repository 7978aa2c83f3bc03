// Package scenario is what contenders are put through, and what is made of the
// readings: which phases there are, what is measured in each, and how it is put
// into the report.
//
// All contenders of a run have the same cluster, one after the other, each in a
// namespace of its own and with the cluster at rest before it begins.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

// The scenarios.
const (
	Churn     = "churn"     // create, update, delete
	Steady    = "steady"    // resync with nothing to do
	Restart   = "restart"   // start with everything settled
	Latency   = "latency"   // from an event to the call, when idle
	Memory    = "memory"    // many cached ConfigMaps
	Unrelated = "unrelated" // create and update among ConfigMaps of nobody
)

// Names lists the scenarios in the order they are run.
func Names() []string { return []string{Churn, Steady, Restart, Latency, Memory, Unrelated} }

// Options are the sizes of a run.
type Options struct {
	Scenarios []string
	// Parents, each with so many Children.
	Parents, Children int
	// Workers is how many requests the load generator makes at once.
	Workers int
	// Resync is the period of the steady state, and half the time it is watched.
	Resync time.Duration
	// Samples is the number of events of the latency scenario.
	Samples int
	// MemoryParents, each with MemoryChildren, of the memory scenario.
	MemoryParents, MemoryChildren int
	// Unrelated is the number of ConfigMaps of the scenario of that name.
	Unrelated int
	// Timeout bounds each phase.
	Timeout time.Duration
}

// Bench runs scenarios on one cluster and reports on them.
type Bench struct {
	Options
	Admin    *cluster.Client
	Report   *report.Report
	Progress func(text string)

	turns int
	// unrelatedThere says that the ConfigMaps of nobody have been created.
	unrelatedThere bool
}

// Round puts each contender through all chosen scenarios once.
func (b *Bench) Round(ctx context.Context, contenders []contender.Contender) error {
	for _, part := range []struct {
		scenarios []string
		run       func(context.Context, contender.Contender) error
	}{
		{[]string{Churn, Steady, Restart, Latency}, b.settledLife},
		{[]string{Memory}, b.memoryLife},
		{[]string{Unrelated}, b.unrelatedLife},
	} {
		if !slices.ContainsFunc(part.scenarios, b.wants) {
			continue
		}
		for _, c := range contenders {
			if err := part.run(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) wants(scenario string) bool { return slices.Contains(b.Scenarios, scenario) }

// settledLife creates parents, does everything that wants settled ones, and
// deletes them.
func (b *Bench) settledLife(ctx context.Context, c contender.Contender) (err error) {
	process, isProcess := c.(contender.Process)
	if !isProcess && !b.wants(Churn) {
		return nil
	}
	t, err := b.begin(ctx, c, load.Work{Parents: b.Parents, Children: b.Children, Round: "one"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.createForLife(ctx); err != nil {
		return err
	}
	if isProcess {
		if err := t.idleScenarios(ctx, process); err != nil {
			return err
		}
	}
	if b.wants(Churn) {
		return t.delete(ctx)
	}
	return nil
}

// createForLife reports on what it does if that is wanted for itself.
func (t *turn) createForLife(ctx context.Context) error {
	if t.bench.wants(Churn) {
		return t.createAndUpdate(ctx, "create", "update")
	}
	return t.create(ctx, "")
}

// idleScenarios wants settled parents and leaves them so.
func (t *turn) idleScenarios(ctx context.Context, process contender.Process) error {
	for _, scenario := range []struct {
		name string
		run  func(context.Context, contender.Process) error
	}{
		{Steady, t.steady},
		{Restart, t.restart},
		{Latency, t.latency},
	} {
		if !t.bench.wants(scenario.name) {
			continue
		}
		if err := t.limited(ctx, scenario.name, func(ctx context.Context) error { return scenario.run(ctx, process) }); err != nil {
			return err
		}
	}
	return nil
}

// unrelatedLife creates and updates parents among ConfigMaps of nobody.
func (b *Bench) unrelatedLife(ctx context.Context, c contender.Contender) (err error) {
	if _, isProcess := c.(contender.Process); !isProcess {
		return nil
	}
	if err := b.createUnrelated(ctx); err != nil {
		return err
	}
	t, err := b.begin(ctx, c, load.Work{Parents: b.Parents, Children: b.Children, Round: "one"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	return t.createAndUpdate(ctx, "unrelated-create", "unrelated-update")
}

func (b *Bench) createUnrelated(ctx context.Context) error {
	const namespace, size = "bench-unrelated", 300
	if b.unrelatedThere {
		return nil
	}
	since := time.Now()
	generator := load.Generator{Client: b.Admin, Workers: b.Workers}
	if err := generator.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := generator.CreateUnrelated(ctx, namespace, b.Unrelated, size); err != nil {
		return err
	}
	b.unrelatedThere = true
	b.Progress(fmt.Sprintf("%d unrelated ConfigMaps created in %.1f s", b.Unrelated, time.Since(since).Seconds()))
	return nil
}
