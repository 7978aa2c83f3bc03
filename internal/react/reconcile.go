package react

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// run is one turn of one object.
type run struct {
	*Controller
	item queue.Item
	// account says what the run did; nil in a rehearsal.
	account *trace.Account
	memory  *memory
	stance  stance
	// stored is the object as it is known to be stored.
	stored *object.Object
	// recorded is the record on the object, watched are the digests of what the
	// handlers watch of it.
	recorded record
	watched  []string
	// owned are the objects that the object controls, in the order of the
	// program, and ownedDigest is what they are as a digest.
	owned       [][]*object.Object
	ownedDigest string
	// digested are the digests of what has been looked at.
	digested digested
	agenda   agenda
	// ownedNow are the owned objects after our writes.
	ownedNow []*object.Object
	// told counts the calls that were made, written says that the object was, and stale
	// that there were writes since it was surveyed. writing is the response at hand.
	told           int
	written, stale bool
	writing        *owed
	// applied says that owned objects were written, change is the latest call that was made
	// because of a change, and resolved says that a conflict ended.
	applied, resolved bool
	// changes is how many changes the run served: as many as the handler was called for
	// that was called for most.
	changes, inARow int
	change          *call
	// failure is that of the run as a whole, ofHandler says that a handler failed.
	failure   error
	ofHandler bool
	// aside says that the run is a write beside those of the object's worker: it
	// has no memory.
	aside bool
	// rehearsed says that nothing is written: see Preview.
	rehearsed bool
	// moved says that an object had changed under the hands of the run.
	moved bool
}

// reconcile gives one object its turn. Whatever is to be tried again is on an
// agenda: each handler of an object fails by itself.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	news := c.news.take(item.Key)
	c.end(ctx, news)
	r, open := c.open(item, news)
	if !open {
		return queue.Settled()
	}
	r.account = c.account(r.stored, item)
	r.account.Was(r.memory.shown.Attempts)
	r.tellPause()
	r.fail(r.contained(ctx))
	outcome := r.conclude(ctx)
	if c.program.stanceOn(r.stored) == indifferent {
		c.memories.drop(item.Key)
	}
	r.handIn(outcome)
	return queue.Settled()
}

// contained is converge, with a panic made an error: a defect met by one object
// must not take the others down.
func (r *run) contained(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("run panicked", "object", r.item.Key.String(), "panic", p, "stack", string(debug.Stack()))
			err = failure.New(ReasonPanicked, failure.Panicked("setpoint met a defect of its own", p))
		}
	}()
	return r.converge(ctx)
}

// converge tells the handlers what they are to be told, and writes what they
// answer.
func (r *run) converge(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	r.attend(ctx)
	if r.stance == pausing {
		return nil
	}
	if r.stance == handling {
		r.decide()
	}
	err := r.serve(ctx)
	if errors.Is(err, errGone) || ctx.Err() != nil {
		err = nil
	}
	return err
}

// prepare is what comes before anybody is told.
func (r *run) prepare(ctx context.Context) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	return r.remind(ctx)
}

// decide is the step that finds out who is to be told what.
func (r *run) decide() {
	r.agenda = r.situation(r.item.Causes).due()
	r.enter()
	r.forgive()
}

// situation is what decides which handlers the object is due for.
func (r *run) situation(causes queue.Causes) *situation {
	asked := causes.Has(queue.UserAsked)
	return &situation{
		program: &r.program,
		object:  r.stored,
		held:    r.program.holds(r.stored),
		record:  r.known(),
		watched: r.watched,
		owned:   r.ownedDigest,
		memory:  r.memory,
		asked:   asked,
		urged:   asked || causes.Has(queue.HookChanged),
		slowed:  r.slowed(),
		now:     r.tools.Now(),
	}
}

// urged says that a user, or another hook, has failed calls retried at once.
func (r *run) urged() bool {
	return r.item.Causes.Has(queue.UserAsked) || r.item.Causes.Has(queue.HookChanged)
}

// pressed says that failed writes are retried at once.
func (r *run) pressed() bool { return r.urged() || r.item.Causes.Has(queue.Retrying) }

// enter makes the entries that handlers get unasked.
func (r *run) enter() {
	known := r.known()
	for _, i := range r.agenda.first {
		e := known[r.program.Handlers[i].Name]
		if e.Seen == "" {
			e.Seen = r.watched[i]
		}
		if r.program.Handlers[i].on(hook.ReasonDrift) {
			e.Owned = r.ownedDigest
		}
		m := &r.memory.handlers[i]
		m.pending, m.before, m.resumed = &e, "", true
	}
}

// forgive forgets the failures of handlers that have nothing to be told of any
// more: what they failed with was undone.
func (r *run) forgive() {
	known := r.known()
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		if h.Do == nil || m.attempt.count+e.Tries == 0 || r.agenda.has(i) || r.memory.owes(i, nil) {
			continue
		}
		m.attempt, m.complaint = attempt{}, ""
		if e.Tries > 0 {
			e.Tries, e.Since = 0, 0
			m.pending = &e
		}
	}
}

// has says whether a handler is to be called, now or later.
func (a *agenda) has(handler int) bool {
	return slices.Contains(a.waiting, handler) || a.calls.of(handler)
}

// since is how long ago a moment was, by the controller's clock.
func (c *Controller) since(t time.Time) time.Duration { return c.tools.Now().Sub(t) }
