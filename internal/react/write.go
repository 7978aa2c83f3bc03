package react

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// errGone ends a run whose object is not there any more. The watch says so in a moment.
var errGone = errors.New("the object is gone")

// writeOwed writes the responses of former runs that are not written yet, but for those
// of handlers that are about to be called for something newer.
func (r *run) writeOwed(ctx context.Context) error {
	if !r.still() {
		return r.drop()
	}
	for _, o := range slices.Clone(r.memory.owed) {
		if o.call.reason != hook.ReasonEvent && r.agenda.calls.of(o.call.handler) {
			continue
		}
		if r.overtaken(o) {
			r.redo(o)
			continue
		}
		if err := r.writeAnswer(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// writeAnswer writes what a handler wants: objects deleted and applied first, then the
// status and the object, the one last that has the record, which says nothing that has
// not landed. A write that the API server refuses is a failure of the handler, and holds
// back no other.
func (r *run) writeAnswer(ctx context.Context, o *owed) error {
	if !r.still() {
		return r.drop()
	}
	if !r.carry(ctx, o) || !r.mayWrite(o) {
		return r.refresh(ctx)
	}
	r.writing = o
	err := r.store(ctx, []*owed{o})
	r.writing = nil
	switch {
	case err == nil:
		r.land(ctx, []*owed{o})
		return r.refresh(ctx)
	case o.content() && isRefusal(err):
		o.attempt.failed(r.tools.Now())
		r.complain(o.call.handler, failure.New(ReasonWriteFailed, fmt.Errorf("handler %s: %w", r.program.Handlers[o.call.handler].Name, err)))
		return r.refresh(ctx)
	}
	return r.unwritten(ctx, err)
}

// writeRest writes what is left of the record, the condition and the finalizer.
func (r *run) writeRest(ctx context.Context) error {
	if !r.still() {
		return r.drop()
	}
	if !r.mayWrite(nil) {
		return nil
	}
	if err := r.store(ctx, nil); err != nil {
		return r.unwritten(ctx, err)
	}
	r.land(ctx, nil)
	return r.refresh(ctx)
}

// unwritten is what becomes of a run that could not write.
func (r *run) unwritten(ctx context.Context, err error) error {
	switch {
	case apply.Gone(err):
		return r.drop()
	case errors.Is(err, errMoved):
		return errMoved
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return failure.New(ReasonWriteFailed, err)
}

// drop drops what was to be written of an object that is not there any more.
func (r *run) drop() error {
	r.memory.owed = nil
	return errGone
}

// refresh looks at the object as our writes have left it.
func (r *run) refresh(ctx context.Context) error {
	if r.stale {
		r.stale = false
		r.survey()
	}
	return ctx.Err()
}

// isRefusal says that the API server understood a write and does not take it. What it says
// of itself, that it is overloaded say, is none.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apply.Gone(err) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// failed notes that a write failed.
func (a *attempt) failed(now time.Time) {
	a.count++
	a.next = now.Add(backoff(a.count, firstDelay, longestDelay))
}

// mayWrite says whether it is time to write the object: what failed a moment ago, and a
// record that is removed over and over, waits, unless a handler just responded.
func (r *run) mayWrite(o *owed) bool {
	wait := latest(r.memory.writing.next, r.memory.losses.next)
	if o != nil {
		wait = latest(wait, o.attempt.next)
	}
	return o != nil && o.fresh && o.attempt.count == 0 || r.pressed() || !wait.After(r.tools.Now())
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
func (r *run) land(ctx context.Context, carried []*owed) {
	r.memory.writing = attempt{}
	defer r.tidy(ctx)
	for _, o := range carried {
		if m := &r.memory.handlers[o.call.handler]; o.attempt.count > 0 {
			o.attempt, m.complaint = attempt{}, ""
		}
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
