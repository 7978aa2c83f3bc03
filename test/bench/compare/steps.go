package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

// What is done to single objects is done to these. All of them are among those that
// change later while the operator is away, so that no step finds what another left.
const (
	deletedByHand = iota
	editedByHand
	failingObject
	firstUntouched
)

// How long is waited for what may never come.
const (
	restoreTimeout = 10 * time.Second
	failureTimeout = 15 * time.Second
	recoverTimeout = 75 * time.Second
	deleteTimeout  = 5 * time.Second
)

// result is everything that was found out about a contender.
type result struct {
	contender
	// absent says why it was not run, if it was not.
	absent error
	// fresh is what it held before there was anything to do.
	fresh use
	// The four steps that are measured.
	create, change, restart, delete outcome
	// peak and hookPeak are the highest that was resident.
	peak, hookPeak int64
	behaviour      behaviour
}

// outcome is what a step took and used, until everybody was at rest.
type outcome struct {
	took         time.Duration
	requests     cluster.Requests
	cpu, hookCPU time.Duration
	serviceCalls int64
}

// behaviour records which requirements a contender meets.
type behaviour struct {
	restoresDeleted, restoresEdited bool
	setsCondition, sendsEvent       bool
	// recovers is how long after the service came back all was right; 0 is never.
	recovers time.Duration
	// deletesWhileDown says that an object can be deleted while the operator is away.
	deletesWhileDown bool
}

func (s *environment) compare(ctx context.Context, chosen []contender) ([]*result, error) {
	var results []*result
	for _, c := range chosen {
		r := &result{contender: c, absent: c.absent(s.bin)}
		results = append(results, r)
		if r.absent != nil {
			s.progress("%s: %v", c.title, r.absent)
			continue
		}
		if err := s.runContender(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return results, nil
}

// runContender has one contender take its turn, in a namespace of its own.
func (s *environment) runContender(ctx context.Context, r *result) (err error) {
	t, err := s.newTrial(ctx, r.contender)
	if err != nil {
		return err
	}
	if t.observed, err = s.createNamespace(ctx, t.namespace); err != nil {
		return err
	}
	defer t.observed.close()
	defer func() { err = errors.Join(err, t.stop()) }()
	for _, step := range []struct {
		name string
		do   func(context.Context, *result) error
	}{
		{"start", t.begin}, {"create", t.createAll}, {"change", t.changeAll}, {"spoil", t.tamper},
		{"trouble", t.serviceOutage}, {"restart", t.outage}, {"delete", t.deleteAll},
	} {
		if err := s.limited(ctx, step.name, func(ctx context.Context) error { return step.do(ctx, r) }); err != nil {
			return err
		}
		s.progress("%s: %s", t.title, step.name)
	}
	r.peak, r.hookPeak = t.peak, t.hookPeak
	return nil
}

func (s *environment) limited(ctx context.Context, step string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not finished within %s", s.timeout))
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// begin starts the contender and waits until it has begun to watch, and is at rest.
func (t *trial) begin(ctx context.Context, r *result) error {
	before, err := cluster.Count(ctx, t.env.admin)
	if err != nil {
		return err
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	err = cluster.Poll(ctx, "the operator to watch something", func() (bool, error) {
		if err := t.process.Err(); err != nil {
			return false, err
		}
		now, err := cluster.Count(ctx, t.env.admin)
		return now[cluster.Watch] > before[cluster.Watch], err
	})
	if err != nil {
		return err
	}
	if err := t.awaitIdle(ctx); err != nil {
		return err
	}
	r.fresh, err = t.read()
	return err
}

func (t *trial) createAll(ctx context.Context, r *result) error {
	n := t.env.objects
	return t.measure(ctx, &r.create, t.observed.haveRate(0, n, initialCurrency), func() error {
		return t.env.create(ctx, t.namespace, n)
	})
}

func (t *trial) changeAll(ctx context.Context, r *result) error {
	n := t.env.objects
	return t.measure(ctx, &r.change, t.observed.haveRate(0, n, changedCurrency), func() error {
		return t.env.change(ctx, t.namespace, n, changedCurrency)
	})
}

func (t *trial) deleteAll(ctx context.Context, r *result) error {
	n := t.env.objects
	return t.measure(ctx, &r.delete, t.observed.deleted(0, n), func() error {
		return t.env.delete(ctx, t.namespace, n)
	})
}

// measure takes the time from before something is done until its end is reached,
// and everything else until everybody is at rest.
func (t *trial) measure(ctx context.Context, out *outcome, reached func() error, do func() error) error {
	before, err := t.gauge(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := do(); err != nil {
		return err
	}
	if err := t.observed.wait(ctx, reached); err != nil {
		return err
	}
	took := time.Since(since)
	if err := t.awaitIdle(ctx); err != nil {
		return err
	}
	after, err := t.gauge(ctx)
	if err != nil {
		return err
	}
	*out = outcome{
		took:         took,
		requests:     after.requests.Sub(before.requests),
		cpu:          after.cpu - before.cpu,
		hookCPU:      after.hookCPU - before.hookCPU,
		serviceCalls: after.serviceCalls - before.serviceCalls,
	}
	return nil
}

// gauges are all that can be read at one moment.
type gauges struct {
	use
	requests     cluster.Requests
	serviceCalls int64
}

// gauge reads an operator that is away as one that has used nothing.
func (t *trial) gauge(ctx context.Context) (g gauges, err error) {
	if t.process.Err() == nil {
		if g.use, err = t.read(); err != nil {
			return g, err
		}
	}
	g.serviceCalls = t.env.rates.calls.Load()
	g.requests, err = cluster.Count(ctx, t.env.admin)
	return g, err
}

// tamper deletes one ConfigMap by hand and edits another.
func (t *trial) tamper(ctx context.Context, r *result) error {
	path := configMapsPath(t.namespace) + "/"
	var err error
	r.behaviour.restoresDeleted, err = t.restores(ctx, deletedByHand, func() error {
		return t.env.admin.Delete(ctx, path+nameOf(deletedByHand))
	})
	if err != nil {
		return err
	}
	r.behaviour.restoresEdited, err = t.restores(ctx, editedByHand, func() error {
		return t.env.admin.Merge(ctx, path+nameOf(editedByHand), []byte(`{"data":{"rate":"7"}}`))
	})
	return err
}

// restores says whether a ConfigMap is written again after harm was done to it: it is
// another version of it then, however fast that was, and has the right rate.
func (t *trial) restores(ctx context.Context, i int, harm func() error) (bool, error) {
	before := t.observed.changes(nameOf(i))
	if err := harm(); err != nil {
		return false, err
	}
	right := t.observed.haveRate(i, i+1, changedCurrency)
	return t.within(ctx, restoreTimeout, func() error {
		// Two writes are the damage and its repair.
		if t.observed.versions[nameOf(i)] < before+2 {
			return errors.New("nothing has happened since the harm")
		}
		return right()
	}), ctx.Err()
}

func (t *trial) within(ctx context.Context, patience time.Duration, holds func() error) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t.observed.wait(ctx, holds) == nil
}

// serviceOutage changes an object while the rate service is out of order.
func (t *trial) serviceOutage(ctx context.Context, r *result) error {
	t.env.rates.broken.Store(true)
	defer t.env.rates.broken.Store(false)
	if err := t.env.changeOne(ctx, t.namespace, failingObject, failingCurrency); err != nil {
		return err
	}
	r.behaviour.setsCondition = t.within(ctx, failureTimeout, t.observed.hasFalseCondition(failingObject))
	r.behaviour.sendsEvent = t.hasWarningEvent(ctx)
	t.env.rates.broken.Store(false)
	since := time.Now()
	if t.within(ctx, recoverTimeout, t.observed.haveRate(failingObject, failingObject+1, failingCurrency)) {
		r.behaviour.recovers = time.Since(since)
	}
	return ctx.Err()
}

// hasWarningEvent says whether there is a Warning about the object in trouble.
func (t *trial) hasWarningEvent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, failureTimeout)
	defer cancel()
	return cluster.Poll(ctx, "a warning", func() (bool, error) {
		body, err := t.env.admin.Get(ctx, "/api/v1/namespaces/"+t.namespace+"/events")
		if err != nil {
			return false, err
		}
		var list struct {
			Items []struct {
				Type           string `json:"type"`
				InvolvedObject struct {
					Name string `json:"name"`
				} `json:"involvedObject"`
			} `json:"items"`
		}
		if err := jsonInto(body, &list); err != nil {
			return false, err
		}
		for _, event := range list.Items {
			if event.Type == "Warning" && event.InvolvedObject.Name == nameOf(failingObject) {
				return true, nil
			}
		}
		return false, nil
	}) == nil
}

// outage ends the operator by force, changes some objects and deletes one, and
// starts it again.
func (t *trial) outage(ctx context.Context, r *result) error {
	if err := t.kill(); err != nil {
		return err
	}
	if err := t.env.change(ctx, t.namespace, t.env.outage, outageCurrency); err != nil {
		return err
	}
	last := t.env.objects - 1
	if err := t.env.admin.Delete(ctx, objectsPath(t.namespace)+"/"+nameOf(last)); err != nil {
		return err
	}
	r.behaviour.deletesWhileDown = t.within(ctx, deleteTimeout, t.observed.deleted(last, last+1))
	return t.measure(ctx, &r.restart, t.afterOutage, func() error { return t.start(ctx) })
}

func (t *trial) afterOutage() error {
	last := t.env.objects - 1
	return errors.Join(t.observed.haveRate(0, t.env.outage, outageCurrency)(), t.observed.deleted(last, last+1)())
}
