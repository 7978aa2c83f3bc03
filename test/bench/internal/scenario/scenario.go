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
	Related   = "related"   // one ConfigMap that all parents read changes
	Outage    = "outage"    // the hook is away for a while
	Tenants   = "tenants"   // latency of a quiet tenant beside a busy one
	Unrelated = "unrelated" // create and update among ConfigMaps without an owner
)

// Names lists the scenarios in the order they are run.
func Names() []string {
	return []string{Churn, Steady, Restart, Latency, Related, Outage, Memory, Tenants, Unrelated}
}

// Options are the sizes of a run.
type Options struct {
	Scenarios []string
	// Sizes are those of churn and restart; the first is that of everything else
	// that does not say otherwise.
	Sizes []Size
	// Workers is how many requests the load generator makes at once.
	Workers int
	// Resync is the period of the steady state, and half the time it is watched.
	Resync time.Duration
	// Samples is the number of events of the latency scenario.
	Samples int
	// Changes is how often the ConfigMap of the related scenario changes.
	Changes int
	// Outage is how long the hook is away.
	Outage time.Duration
	// Memory is the size of the memory scenario.
	Memory Size
	// Busy is the number of parents of the busy tenant.
	Busy int
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
	// OtherProcesses reads the processor time of all but the contenders, by name.
	OtherProcesses func() (map[string]time.Duration, error)

	trials int
	// unrelatedThere says that the ConfigMaps without an owner have been created.
	unrelatedThere bool
}

// lifecycle is what a contender goes through with one set of parents.
type lifecycle struct {
	scenarios []string
	run       func(context.Context, contender.Contender) error
}

// Round puts each contender through all chosen scenarios once.
func (b *Bench) Round(ctx context.Context, contenders []contender.Contender) error {
	for _, life := range b.lifecycles() {
		if !slices.ContainsFunc(life.scenarios, b.isSelected) {
			continue
		}
		for _, c := range contenders {
			if err := life.run(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) lifecycles() []lifecycle {
	lives := []lifecycle{{[]string{Churn, Steady, Restart, Latency}, b.churnAndIdle}}
	for _, size := range b.Sizes[1:] {
		lives = append(lives, lifecycle{[]string{Churn, Restart}, b.churnAndRestart(size)})
	}
	return append(lives,
		lifecycle{[]string{Related}, b.runRelated},
		lifecycle{[]string{Outage}, b.runOutage},
		lifecycle{[]string{Memory}, b.runMemory},
		lifecycle{[]string{Tenants}, b.runTenants},
		lifecycle{[]string{Unrelated}, b.runUnrelated})
}

func (b *Bench) isSelected(scenario string) bool { return slices.Contains(b.Scenarios, scenario) }

// churnAndIdle creates parents, does everything that wants settled ones, and
// deletes them.
func (b *Bench) churnAndIdle(ctx context.Context, c contender.Contender) error {
	return b.runChurn(ctx, c, b.Sizes[0], func(t *trial) []idleScenario {
		return []idleScenario{{Steady, true, t.steady}, {Restart, true, t.restart}, {Latency, false, t.latency}}
	})
}

// churnAndRestart is a shorter one, for the scenarios that other sizes are tried with.
func (b *Bench) churnAndRestart(size Size) func(context.Context, contender.Contender) error {
	return func(ctx context.Context, c contender.Contender) error {
		return b.runChurn(ctx, c, size, func(t *trial) []idleScenario {
			return []idleScenario{{Restart, true, t.restart}}
		})
	}
}

// idleScenario wants settled parents and leaves them so.
type idleScenario struct {
	name string
	// probes says that it looks into where calls arrive.
	probes bool
	run    func(context.Context, contender.Process) error
}

func (b *Bench) runChurn(ctx context.Context, c contender.Contender, size Size, between func(*trial) []idleScenario) (err error) {
	process, isProcess := c.(contender.Process)
	if !isProcess && !b.isSelected(Churn) {
		return nil
	}
	t, err := b.begin(ctx, c, size.work(), contender.Settings{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.createMeasured(ctx, size); err != nil {
		return err
	}
	if isProcess {
		if err := t.idle(ctx, process, between(t)); err != nil {
			return err
		}
	}
	if b.isSelected(Churn) {
		return t.delete(ctx, "delete-"+size.String())
	}
	return nil
}

// createMeasured reports on what it does if that is wanted for itself.
func (t *trial) createMeasured(ctx context.Context, size Size) error {
	if t.bench.isSelected(Churn) {
		return t.createAndUpdate(ctx, "create-"+size.String(), "update-"+size.String())
	}
	return t.create(ctx, "")
}

func (t *trial) idle(ctx context.Context, process contender.Process, scenarios []idleScenario) error {
	for _, scenario := range scenarios {
		if !t.bench.isSelected(scenario.name) || (scenario.probes && process.Probe() == nil) {
			continue
		}
		if err := t.limited(ctx, scenario.name, func(ctx context.Context) error { return scenario.run(ctx, process) }); err != nil {
			return err
		}
	}
	return nil
}

// runUnrelated creates and updates parents among ConfigMaps without an owner.
func (b *Bench) runUnrelated(ctx context.Context, c contender.Contender) (err error) {
	if _, isProcess := c.(contender.Process); !isProcess {
		return nil
	}
	if err := b.createUnrelated(ctx); err != nil {
		return err
	}
	t, err := b.begin(ctx, c, b.Sizes[0].work(), contender.Settings{})
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
