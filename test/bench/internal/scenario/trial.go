package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
)

// trial is one contender at work in one namespace.
type trial struct {
	bench     *Bench
	contender contender.Contender
	work      load.Work
	generator load.Generator
	tracker   load.Tracker
	observer  *load.Observer
	arrivals  arrivals
	// fresh is what the contender held before there was anything to do.
	fresh contender.Reading
}

// begin starts a contender on an empty namespace and waits until both are at
// rest.
func (b *Bench) begin(ctx context.Context, c contender.Contender, work load.Work, settings contender.Settings) (*trial, error) {
	b.trials++
	work.Namespace = fmt.Sprintf("bench-%s-%d", c.Name(), b.trials)
	t := &trial{
		bench:     b,
		contender: c,
		work:      work,
		generator: load.Generator{Client: b.Admin, Workers: b.Workers},
	}
	err := t.limited(ctx, "start", func(ctx context.Context) error { return t.start(ctx, settings) })
	if err != nil {
		return nil, errors.Join(err, t.end(ctx))
	}
	return t, nil
}

func (t *trial) start(ctx context.Context, settings contender.Settings) (err error) {
	if err := t.observe(ctx); err != nil {
		return err
	}
	if _, err := t.contender.Start(ctx, settings); err != nil {
		return err
	}
	t.awaitIdle(ctx)
	t.fresh, err = t.read(ctx)
	return err
}

// observe creates the namespace and watches it.
func (t *trial) observe(ctx context.Context) (err error) {
	if err := t.generator.CreateNamespace(ctx, t.work.Namespace); err != nil {
		return err
	}
	t.observer, err = load.Observe(ctx, t.bench.Admin, t.work.Namespace, t.see, t.tracker.Fail)
	return err
}

func (t *trial) size() Size { return Size{Parents: t.work.Parents, Children: t.work.Children} }

func (t *trial) see(s load.Observation, at time.Time) {
	t.tracker.See(s, at)
	t.arrivals.see(s, at)
}

// end stops the contender and takes away what it leaves.
func (t *trial) end(ctx context.Context) error {
	return errors.Join(t.contender.Close(), t.cleanUp(ctx))
}

// cleanUp deletes parents and children, and waits until they are gone.
func (t *trial) cleanUp(ctx context.Context) error {
	if t.observer == nil {
		return nil
	}
	defer t.observer.Close()
	return t.limited(ctx, "clean up", func(ctx context.Context) error {
		t.tracker.Expect(load.Goal{Work: t.work, Gone: true})
		for _, path := range []string{load.ThingsPath(t.work.Namespace), load.ChildrenPath(t.work.Namespace)} {
			if err := t.bench.Admin.Delete(ctx, path); err != nil {
				return err
			}
		}
		return t.tracker.Wait(ctx)
	})
}

// limited bounds a step, and says who did not finish which.
func (t *trial) limited(ctx context.Context, step string, do func(context.Context) error) error {
	limit := t.bench.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("%s not finished within %s", step, limit))
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %s: %w", t.contender.Name(), step, err)
	}
	return nil
}

// read reads the contender, which is nothing for one without a process.
func (t *trial) read(ctx context.Context) (contender.Reading, error) {
	if process, ok := t.contender.(contender.Process); ok {
		return process.Read(ctx)
	}
	return contender.Reading{}, nil
}

// At rest is a process that uses no more than one tick of processor time in a
// second.
const (
	idleInterval = 250 * time.Millisecond
	idleSpan     = 4
	idleTick     = 10 * time.Millisecond
	idleLimit    = 20 * time.Second
)

// awaitIdle waits until the contender is at rest, so that work after the goal is
// counted as well. One that never rests is not waited for forever.
func (t *trial) awaitIdle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	ticker := time.NewTicker(idleInterval)
	defer ticker.Stop()
	var used []time.Duration
	for {
		reading, err := t.read(ctx)
		if err != nil {
			return
		}
		used = append(used, reading.CPU)
		if n := len(used); n > idleSpan && used[n-1]-used[n-1-idleSpan] <= idleTick {
			return
		}
		select {
		case <-ctx.Done():
			t.bench.Progress(fmt.Sprintf("%s is still busy %s after its work was done", t.contender.Name(), idleLimit))
			return
		case <-ticker.C:
		}
	}
}

// outcome is what was measured from the beginning of a phase to its end.
type outcome struct {
	// converged is the time to the goal, loaded that of the load generator.
	converged, loaded time.Duration
	requests          cluster.Requests
	before, after     contender.Reading
	// others is the processor time of everybody else, by name.
	others map[string]time.Duration
}

// gauge reads everything before and after do.
func (t *trial) gauge(ctx context.Context, do func(*outcome) error) (*outcome, error) {
	var out outcome
	before, err := t.gaugeOnce(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(&out); err != nil {
		return nil, err
	}
	after, err := t.gaugeOnce(ctx)
	if err != nil {
		return nil, err
	}
	out.before, out.after = before.contender, after.contender
	out.requests = after.requests.Sub(before.requests)
	out.others = map[string]time.Duration{}
	for name, used := range after.others {
		out.others[name] = used - before.others[name]
	}
	return &out, nil
}

// gauges are all that can be read at one moment.
type gauges struct {
	contender contender.Reading
	requests  cluster.Requests
	others    map[string]time.Duration
}

func (t *trial) gaugeOnce(ctx context.Context) (g gauges, err error) {
	if g.contender, err = t.read(ctx); err != nil {
		return g, err
	}
	if g.requests, err = cluster.Count(ctx, t.bench.Admin); err != nil {
		return g, err
	}
	g.others, err = t.bench.OtherProcesses()
	return g, err
}

// step is something the load generator does, and what should come of it.
type step struct {
	// section is the part of the report it belongs to.
	section string
	goal    load.Goal
	load    func(context.Context) error
	// write, which may be nil, does what a contender without eyes has to do.
	write func(context.Context) error
}

// phase carries out a step and measures until its goal is reached and the
// contender at rest.
func (t *trial) phase(ctx context.Context, s step) (*outcome, error) {
	return t.gauge(ctx, func(out *outcome) error {
		t.tracker.Expect(s.goal)
		since := time.Now()
		if err := s.load(ctx); err != nil {
			return err
		}
		out.loaded = time.Since(since)
		if s.write != nil {
			if err := s.write(ctx); err != nil {
				return err
			}
		}
		if err := t.tracker.Wait(ctx); err != nil {
			return err
		}
		t.awaitIdle(ctx)
		out.converged = t.tracker.ReachedAt().Sub(since)
		return t.tracker.Check()
	})
}
