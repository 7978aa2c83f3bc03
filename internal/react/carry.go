package react

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// budgetDelay is how soon a pod that could not be evicted is tried again. That a
// budget is used up is no failure.
const budgetDelay = 2 * time.Second

// budgetPatience is how long a budget may keep pods before their user is told: one
// that allows a pod at a time refuses now and then, for a moment.
const budgetPatience = 10 * time.Second

// errBudget ends an answer of which some pods could not be evicted for now.
var errBudget = errors.New("a disruption budget does not allow more evictions now")

// carry deletes and applies what an answer says, and says whether all is done. It
// is tried again with backoff, without asking the handler.
func (r *run) carry(ctx context.Context, o *owed) bool {
	now, m := r.tools.Now(), &r.memory.handlers[o.call.handler]
	if !o.carried && !o.fresh && o.attempt.next.After(now) && !r.pressed() {
		return false
	}
	carried := o.carried
	h := hands{Controller: r.Controller, account: r.account, object: r.stored, landed: r.landed, lies: r.lies, left: r.left}
	err := h.carry(ctx, o)
	switch {
	case err == nil:
		if !carried {
			if o.attempt.count > 0 {
				m.complaint = ""
			}
			o.attempt, m.kept = attempt{}, keptBack{}
		}
		return true
	case ctx.Err() != nil:
	case errors.Is(err, errBudget):
		o.attempt.next = now.Add(budgetDelay)
		r.tellRefusal(&m.kept, err)
	case hook.Terminal(err):
		r.dismiss(o, err)
	default:
		o.attempt.failed(now)
		r.complain(o.call.handler, failure.New(ReasonWriteFailed, fmt.Errorf("handler %s: %w", r.program.Handlers[o.call.handler].Name, err)))
	}
	return false
}

// keptBack is since when budgets have kept pods that a handler wants evicted, and
// whether their user was told.
type keptBack struct {
	since time.Time
	told  bool
}

// tellRefusal says once that budgets have kept pods for long, also if the handler
// was asked again meanwhile.
func (r *run) tellRefusal(f *keptBack, err error) {
	switch now := r.tools.Now(); {
	case f.since.IsZero():
		f.since = now
	case !f.told && now.Sub(f.since) >= budgetPatience:
		f.told = true
		message := failure.OneLine(err)
		r.log.Warn("eviction refused", "object", r.stored.Ref().String(), "error", message)
		r.say(hook.Event{Type: warning, Reason: ReasonEvictionRefused, Message: message})
	}
}

// dismiss drops an answer that cannot be carried out, whoever tries.
func (r *run) dismiss(o *owed, err error) {
	r.memory.owed = slices.DeleteFunc(r.memory.owed, func(other *owed) bool { return other == o })
	r.giveUp(o.call, fmt.Errorf("handler %s: %w", r.program.Handlers[o.call.handler].Name, err))
}

// landed takes note of a write to an owned object; stored is nil if it is gone.
func (r *run) landed(ref object.Ref, stored *object.Object) {
	r.stale, r.applied = true, true
	r.ownedNow = slices.DeleteFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == ref })
	if stored != nil && stored.ControlledBy(r.stored.UID()) {
		r.ownedNow = append(r.ownedNow, stored)
	}
}

// hands carry out what an answer says beside the handled object itself.
type hands struct {
	*Controller
	account *trace.Account
	object  *object.Object
	// landed is told of each write to a kind that the program owns.
	landed func(object.Ref, *object.Object)
	// lies, if set, says whether there is nothing to apply, and left is told what
	// was.
	lies func(*object.Object) bool
	left func(applied, stored *object.Object)
}

// carry deletes first, and then applies.
func (h *hands) carry(ctx context.Context, o *owed) error {
	if o.carried {
		return nil
	}
	if err := h.resolve(ctx, o); err != nil {
		return err
	}
	if err := h.deleteAll(ctx, o); err != nil {
		return err
	}
	for _, a := range o.answer.Apply[o.applied:] {
		if err := h.apply(ctx, a); err != nil {
			return err
		}
		o.applied++
	}
	o.carried = true
	return nil
}

// noted has a write known to whoever watches.
func (h *hands) noted(resource object.Resource, stored *object.Object) {
	h.wrote(resource, stored)
	if slices.Contains(h.program.Owns, resource) {
		h.landed(stored.Ref(), stored)
	}
}

// gone has a deletion known to whoever watches.
func (h *hands) gone(resource object.Resource, o *object.Object) {
	h.removed(resource, o)
	if slices.Contains(h.program.Owns, resource) {
		h.landed(o.Ref(), nil)
	}
}

// tolerable says that nothing is to be done about an error: where a namespace is
// going away, nothing can be made in it any more.
func tolerable(err error) bool { return apply.Terminating(err) }
