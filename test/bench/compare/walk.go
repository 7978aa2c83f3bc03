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
	inTrouble
	firstUntouched
)

// How long is waited for what may never come.
const (
	restorePatience = 10 * time.Second
	troublePatience = 15 * time.Second
	recoverPatience = 75 * time.Second
	deletePatience  = 5 * time.Second
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
	does           behaviour
}

// outcome is what a step took and used, until everybody was at rest.
type outcome struct {
	took         time.Duration
	requests     cluster.Requests
	cpu, hookCPU time.Duration
	asked        int64
}

// behaviour is what a contender does of what was asked for.
type behaviour struct {
	restoresDeleted, restoresEdited bool
	saysCondition, saysEvent        bool
	// recovers is how long after the service came back all was right; 0 is never.
	recovers time.Duration
	// letsGo says that an object can be deleted while the operator is away.
	letsGo bool
}

func (s *stage) compare(ctx context.Context, chosen []contender) ([]*result, error) {
	var results []*result
	for _, c := range chosen {
		r := &result{contender: c, absent: c.absent(s.bin)}
		results = append(results, r)
		if r.absent != nil {
			s.progress("%s: %v", c.title, r.absent)
			continue
		}
		if err := s.perform(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return results, nil
}

// perform has one contender take its turn, in a namespace of its own.
func (s *stage) perform(ctx context.Context, r *result) (err error) {
	t, err := s.newTurn(ctx, r.contender)
	if err != nil {
		return err
	}
	if t.sights, err = s.enter(ctx, t.namespace); err != nil {
		return err
	}
	defer t.sights.close()
	defer func() { err = errors.Join(err, t.stop()) }()
	for _, step := range []struct {
		name string
		do   func(context.Context, *result) error
	}{
		{"start", t.begin}, {"create", t.createAll}, {"change", t.changeAll}, {"spoil", t.spoil},
		{"trouble", t.suffer}, {"restart", t.outage}, {"delete", t.deleteAll},
	} {
		if err := s.limited(ctx, step.name, func(ctx context.Context) error { return step.do(ctx, r) }); err != nil {
			return err
		}
		s.progress("%s: %s", t.title, step.name)
	}
	r.peak, r.hookPeak = t.peak, t.hookPeak
	return nil
}

func (s *stage) limited(ctx context.Context, step string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not finished within %s", s.timeout))
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// begin starts the contender and waits until it has begun to watch, and is at rest.
func (t *turn) begin(ctx context.Context, r *result) error {
	before, err := cluster.Count(ctx, t.stage.admin)
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
		now, err := cluster.Count(ctx, t.stage.admin)
		return now[cluster.Watch] > before[cluster.Watch], err
	})
	if err != nil {
		return err
	}
	if err := t.rest(ctx); err != nil {
		return err
	}
	r.fresh, err = t.read()
	return err
}

func (t *turn) createAll(ctx context.Context, r *result) error {
	n := t.stage.objects
	return t.measure(ctx, &r.create, t.sights.right(0, n, atFirst), func() error {
		return t.stage.create(ctx, t.namespace, n)
	})
}

func (t *turn) changeAll(ctx context.Context, r *result) error {
	n := t.stage.objects
	return t.measure(ctx, &r.change, t.sights.right(0, n, changed), func() error {
		return t.stage.change(ctx, t.namespace, n, changed)
	})
}

func (t *turn) deleteAll(ctx context.Context, r *result) error {
	n := t.stage.objects
	return t.measure(ctx, &r.delete, t.sights.gone(0, n), func() error {
		return t.stage.delete(ctx, t.namespace, n)
	})
}

// measure takes the time from before something is done until its end is reached,
// and everything else until everybody is at rest.
func (t *turn) measure(ctx context.Context, out *outcome, reached func() error, do func() error) error {
	before, err := t.gauge(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := do(); err != nil {
		return err
	}
	if err := t.sights.wait(ctx, reached); err != nil {
		return err
	}
	took := time.Since(since)
	if err := t.rest(ctx); err != nil {
		return err
	}
	after, err := t.gauge(ctx)
	if err != nil {
		return err
	}
	*out = outcome{
		took:     took,
		requests: after.requests.Sub(before.requests),
		cpu:      after.cpu - before.cpu,
		hookCPU:  after.hookCPU - before.hookCPU,
		asked:    after.asked - before.asked,
	}
	return nil
}

// gauges are all that can be read at one moment.
type gauges struct {
	use
	requests cluster.Requests
	asked    int64
}

// gauge reads an operator that is away as one that has used nothing.
func (t *turn) gauge(ctx context.Context) (g gauges, err error) {
	if t.process.Err() == nil {
		if g.use, err = t.read(); err != nil {
			return g, err
		}
	}
	g.asked = t.stage.rates.asked.Load()
	g.requests, err = cluster.Count(ctx, t.stage.admin)
	return g, err
}

// spoil deletes one ConfigMap by hand and edits another.
func (t *turn) spoil(ctx context.Context, r *result) error {
	path := configMapsPath(t.namespace) + "/"
	var err error
	r.does.restoresDeleted, err = t.mends(ctx, deletedByHand, func() error {
		return t.stage.admin.Delete(ctx, path+nameOf(deletedByHand))
	})
	if err != nil {
		return err
	}
	r.does.restoresEdited, err = t.mends(ctx, editedByHand, func() error {
		return t.stage.admin.Merge(ctx, path+nameOf(editedByHand), []byte(`{"data":{"rate":"7"}}`))
	})
	return err
}

// mends says whether a ConfigMap is written again after harm was done to it: it is
// another version of it then, however fast that was, and has the right rate.
func (t *turn) mends(ctx context.Context, i int, harm func() error) (bool, error) {
	before := t.sights.changes(nameOf(i))
	if err := harm(); err != nil {
		return false, err
	}
	right := t.sights.right(i, i+1, changed)
	return t.within(ctx, restorePatience, func() error {
		// Two are the harm and what mends it.
		if t.sights.versions[nameOf(i)] < before+2 {
			return errors.New("nothing has happened since the harm")
		}
		return right()
	}), ctx.Err()
}

func (t *turn) within(ctx context.Context, patience time.Duration, holds func() error) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t.sights.wait(ctx, holds) == nil
}

// suffer changes an object while the rate service is out of order.
func (t *turn) suffer(ctx context.Context, r *result) error {
	t.stage.rates.trouble.Store(true)
	defer t.stage.rates.trouble.Store(false)
	if err := t.stage.changeOne(ctx, t.namespace, inTrouble, troubled); err != nil {
		return err
	}
	r.does.saysCondition = t.within(ctx, troublePatience, t.sights.unwell(inTrouble))
	r.does.saysEvent = t.warned(ctx)
	t.stage.rates.trouble.Store(false)
	since := time.Now()
	if t.within(ctx, recoverPatience, t.sights.right(inTrouble, inTrouble+1, troubled)) {
		r.does.recovers = time.Since(since)
	}
	return ctx.Err()
}

// warned says whether there is a Warning about the object in trouble.
func (t *turn) warned(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, troublePatience)
	defer cancel()
	return cluster.Poll(ctx, "a warning", func() (bool, error) {
		body, err := t.stage.admin.Get(ctx, "/api/v1/namespaces/"+t.namespace+"/events")
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
			if event.Type == "Warning" && event.InvolvedObject.Name == nameOf(inTrouble) {
				return true, nil
			}
		}
		return false, nil
	}) == nil
}

// outage ends the operator by force, changes some objects and deletes one, and
// starts it again.
func (t *turn) outage(ctx context.Context, r *result) error {
	if err := t.kill(); err != nil {
		return err
	}
	if err := t.stage.change(ctx, t.namespace, t.stage.outage, meanwhile); err != nil {
		return err
	}
	last := t.stage.objects - 1
	if err := t.stage.admin.Delete(ctx, objectsPath(t.namespace)+"/"+nameOf(last)); err != nil {
		return err
	}
	r.does.letsGo = t.within(ctx, deletePatience, t.sights.gone(last, last+1))
	return t.measure(ctx, &r.restart, t.afterOutage, func() error { return t.start(ctx) })
}

func (t *turn) afterOutage() error {
	last := t.stage.objects - 1
	return errors.Join(t.sights.right(0, t.stage.outage, meanwhile)(), t.sights.gone(last, last+1)())
}
