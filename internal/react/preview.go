package react

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Subject says what to preview.
type Subject struct {
	Key queue.Key
	// Given is seen as the next state of the object; it need not be stored. Without
	// it, the stored one is looked up.
	Given *object.Object
	// Unasked leaves the handlers alone: who would be told is all there is to say.
	Unasked bool
}

// Preview is what a turn of an object would do.
type Preview struct {
	// Untouched says why the object would be left alone; empty otherwise.
	Untouched string
	// Stored is the object as it is, Object as it would be once everything is
	// written: with what answers change, the record, and the finalizer on it, or off.
	Stored, Object *object.Object
	// Recorded says that the record would be another one. Record is its annotation.
	Recorded bool
	Record   string
	// Calls are those that would be made now, in their order.
	Calls []Foreseen
	// GivenUp are handlers that wait for the object to change, Timers the next calls
	// by the clock.
	GivenUp []string
	Timers  []Timer
}

// Foreseen is a call that would be made, and what would come of it.
type Foreseen struct {
	Handler string
	Reason  hook.Reason
	// Since is since when the handler is due, as far as that is known; else zero.
	Since time.Time
	// Settle is for how long nothing may have changed before the call is made.
	Settle  time.Duration
	Attempt int
	// Changes are what the handler is told that has changed.
	Changes []hook.FieldChange
	// Answer is nil where the handler was not asked, or failed, which is Err then.
	Answer *hook.Answer
	Err    error
	// GaveUp says that a failed call would not be made again.
	GaveUp bool
	Writes []Foreplan
}

// Timer is a handler that the clock will have told.
type Timer struct {
	Handler string
	// At is the next moment, unless the object changes in the Idle before.
	At   time.Time
	Idle time.Duration
}

// errNoObject says that there is nothing to preview.
var errNoObject = errors.New("there is no such object among those that this controller handles")

// Objects are those that the controller handles, sorted by namespace and name.
// Those that are not listed yet are missing.
func (c *Controller) Objects() []*object.Object {
	var all []*object.Object
	for _, view := range c.objects.views {
		for o := range view.All() {
			if c.program.stanceOn(o) != indifferent {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
	})
	return all
}

// Preview finds out which handlers would be told of an object now, asks them, and
// finds out what would be written of what they answer; and writes nothing. What a
// start alone brings about is left out. The controller must not be running.
func (c *Controller) Preview(ctx context.Context, of Subject) (Preview, error) {
	if !c.wait(ctx) {
		return Preview{}, fmt.Errorf("wait for the watches to sync: %w", context.Cause(ctx))
	}
	r, found := c.rehearse(of.Key, of.Given)
	if !found {
		return Preview{}, fmt.Errorf("%s %s: %w", c.program.Resource.Kind, of.Key, errNoObject)
	}
	p := Preview{Stored: r.stored, Object: r.stored, Record: c.program.Record, Untouched: r.untouched()}
	var err error
	switch {
	case r.stance == releasing:
		p.Object, err = objectOf(merged(tree(r.stored.JSON()), map[string]any{"metadata": r.accounts(nil)}))
	case p.Untouched == "":
		err = r.foresee(ctx, &p, !of.Unasked)
	}
	return p, err
}

// rehearse opens a run that writes nothing. An object that is given is seen as the
// next state of the stored one.
func (c *Controller) rehearse(key queue.Key, given *object.Object) (*run, bool) {
	stored := c.get(key)
	first := cmp.Or(stored, given)
	if first == nil {
		return nil, false
	}
	r := &run{Controller: c, item: queue.Item{Key: key}, stored: first, rehearsed: true}
	r.remember()
	for i := range r.memory.handlers {
		r.memory.handlers[i].resumed = true
	}
	r.survey()
	if given != nil && given != first {
		r.stored = given
		r.survey()
	}
	r.stance = c.program.stanceOn(r.stored)
	if given != nil && (stored == nil || stored.Digest() != given.Digest()) {
		r.takeNews([]store.Event{{Old: stored, New: given}})
	}
	return r, true
}

// untouched says why nobody is told of the object.
func (r *run) untouched() string {
	switch r.stance {
	case indifferent:
		return "not handled by this controller: its labels or annotations do not match"
	case pausing:
		return "paused by its annotation"
	case releasing:
		return "only the finalizer of this controller is to be removed"
	}
	return ""
}

// foresee takes the steps of a run, but for those that write.
func (r *run) foresee(ctx context.Context, into *Preview, ask bool) error {
	if err := r.holdInThought(); err != nil {
		return err
	}
	if err := r.remind(ctx); err != nil {
		return err
	}
	r.settleInThought()
	r.decide()
	into.Timers, into.GivenUp = r.timers(), r.givenUp()
	var carried []*owed
	for _, c := range r.ahead() {
		f := r.foreseen(c)
		if o := r.answerInThought(ctx, c, &f, ask); o != nil {
			carried = append(carried, o)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		into.Calls = append(into.Calls, f)
	}
	var err error
	into.Object, into.Recorded, err = r.storedInThought(carried)
	return err
}

// ahead are the calls to make, in the order of the program: each handler is called for
// what happened, then for what the object is due for.
func (r *run) ahead() []call {
	var all []call
	due := r.agenda.calls
	for i := range r.program.Handlers {
		for _, e := range r.memory.handlers[i].events {
			all = append(all, r.eventCall(i, e))
		}
		if len(due) > 0 && due[0].handler == i {
			all, due = append(all, due[0]), due[1:]
		}
	}
	return all
}

// holdInThought shows the handlers the object with the finalizer on it.
func (r *run) holdInThought() error {
	if r.stance != handling || r.stored.Deleting() || r.program.holds(r.stored) || !r.program.needsHold(r.stored) {
		return nil
	}
	held, err := r.stored.With(textOf(append(r.stored.Finalizers(), r.program.Finalizer)), "metadata", "finalizers")
	if err != nil {
		return failure.New(ReasonWriteFailed, fmt.Errorf("add the finalizer: %w", err))
	}
	r.stored = held
	r.survey()
	return nil
}

// settleInThought has edits settled: whoever asks for a preview does not wait for it.
func (r *run) settleInThought() {
	now := r.tools.Now()
	for i := range r.memory.handlers {
		if settle := r.program.Handlers[i].Settle; settle > 0 {
			r.memory.handlers[i].idle.since = now.Add(-settle)
		}
	}
}

// foreseen is a call before anybody was asked.
func (r *run) foreseen(c call) Foreseen {
	h := &r.program.Handlers[c.handler]
	f := Foreseen{Handler: h.Name, Reason: c.reason, Since: r.dueSince(c), Attempt: c.attempt, Changes: r.notice(c).Changes}
	if c.reason == hook.ReasonUpdate {
		f.Settle = h.Settle
	}
	return f
}

// dueSince is since when a handler is due, as far as the object says so; else zero.
func (r *run) dueSince(c call) time.Time {
	e := r.recorded[r.program.Handlers[c.handler].Name]
	switch {
	case e.Tries > 0:
		return time.Unix(e.Since, 0)
	case c.reason == hook.ReasonCreate:
		return createdAt(c.object)
	case c.reason == hook.ReasonDelete:
		return timeIn(c.object, "deletionTimestamp")
	case c.reason == hook.ReasonUpdate && e.Under != "":
		return time.Unix(e.At, 0)
	}
	return time.Time{}
}

// timers are the next calls by the clock of handlers that are not called now.
func (r *run) timers() []Timer {
	var timers []Timer
	s := r.situation(queue.Causes{})
	for i := range r.program.Handlers {
		h := &r.program.Handlers[i]
		if !h.ticks() || r.agenda.has(i) || r.stored.Deleting() || !h.cares(nil, r.stored) {
			continue
		}
		if at := s.nextTick(i); !at.IsZero() {
			timers = append(timers, Timer{Handler: h.Name, At: at, Idle: h.Idle})
		}
	}
	return timers
}

// givenUp are the handlers that failed for good with the object as it is.
func (r *run) givenUp() []string {
	var names []string
	known := r.known()
	for i := range r.program.Handlers {
		if name := r.program.Handlers[i].Name; known[name].Failed && !r.agenda.has(i) {
			names = append(names, name)
		}
	}
	return names
}
