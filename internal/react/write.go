package react

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// write is the step that writes what is owed: objects deleted and applied first,
// then the status and the object, the one last that has the record, which says
// nothing that has not landed.
func (r *run) write(ctx context.Context) error {
	if !r.still() {
		// What was to be written is of no use any more.
		r.memory.owed = nil
		return nil
	}
	r.ownedNow = flat(r.owned)
	var carried []*owed
	for _, o := range slices.Clone(r.memory.owed) {
		if r.carry(ctx, o) {
			carried = append(carried, o)
		}
	}
	if !r.mayWrite(carried) {
		return nil
	}
	err := r.store(ctx, carried)
	switch {
	case err == nil:
		r.memory.writing = attempt{}
		r.land(carried)
		r.tidy(ctx)
	case apply.Gone(err):
		// The watch says so in a moment; what was to be written is of no use.
		r.memory.owed = nil
	case errors.Is(err, errMoved):
		return errMoved
	case ctx.Err() == nil:
		return failure.New(ReasonWriteFailed, err)
	}
	return nil
}

// failed notes that a write failed.
func (a *attempt) failed(now time.Time) {
	a.count++
	a.next = now.Add(backoff(a.count, firstDelay, longestDelay))
}

// mayWrite says whether it is time to write the object: what failed a moment ago,
// and a record that is removed over and over, waits, unless there is more to write
// now.
func (r *run) mayWrite(carried []*owed) bool {
	fresh := func(o *owed) bool { return o.fresh }
	return !latest(r.memory.writing.next, r.memory.losses.next).After(r.tools.Now()) || r.pressed() || slices.ContainsFunc(carried, fresh)
}

// store writes what carried answers say of the object.
func (r *run) store(ctx context.Context, carried []*owed) error {
	exact := slices.ContainsFunc(carried, (*owed).content)
	r.advanceOwned(carried)
	if err := r.keep(ctx, carried); err != nil {
		return err
	}
	d := draft{before: r.stored, exact: exact}
	if r.keepsInStatus() {
		return r.storeWithStatus(ctx, carried, d)
	}
	if r.program.Resource.Status {
		var err error
		if d.status, err = r.storeStatus(ctx, r.statusPatch(carried), true); err != nil {
			return err
		}
	}
	return r.storeObject(ctx, carried, d)
}

// land takes note that answers have been written whole.
func (r *run) land(carried []*owed) {
	for _, o := range carried {
		for _, event := range o.answer.Events {
			r.say(event)
		}
	}
	r.memory.owed = slices.DeleteFunc(r.memory.owed, func(o *owed) bool { return slices.Contains(carried, o) })
	for i := range r.memory.handlers {
		if m := &r.memory.handlers[i]; m.pending != nil && !r.memory.owes(i, nil) {
			m.recorded, m.pending, m.answered = *m.pending, nil, nil
		}
	}
}

// advanceOwned notes in the entries what the owned objects are after our writes.
// For a handler that has yet to be told of drift they are still not as they were
// left.
func (r *run) advanceOwned(carried []*owed) {
	if !r.program.told(hook.ReasonDrift) {
		return
	}
	before := r.ownedDigest
	r.ownedDigest = r.digested.owned(r.ownedNow)
	known := r.known()
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		told := slices.ContainsFunc(carried, func(o *owed) bool { return o.call.handler == i && o.call.reason != hook.ReasonEvent })
		if !h.on(hook.ReasonDrift) || e.Seen == "" || e.Owned == r.ownedDigest || !told && e.Owned != before {
			continue
		}
		e.Owned = r.ownedDigest
		m.pending = &e
		if m.attempt.again && m.attempt.reason == hook.ReasonDrift {
			m.attempt.input = r.ownedDigest
		}
	}
}
