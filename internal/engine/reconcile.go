package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// maxRounds bounds how often one run asks the hook: once for what is there, once
// for what our own writes made of it, and some more for hooks that work in steps.
const maxRounds = 6

// run is one turn of one parent.
type run struct {
	*Controller
	item queue.Item
	// account says what the run did; nil in a rehearsal.
	account *trace.Account
	memory  *memory
	stance  stance
	// stored is the parent as the cache has it, which is what hooks are shown; parent
	// is the same with what the latest responses say of it laid over.
	stored, parent *object.Object
	// visible is what of stored hooks are shown, of the version it is made from.
	visible struct{ of, as *object.Object }
	family  plan.Family
	// children are the observed children, in the order of the rules.
	children [][]*object.Object
	// kept are the stored revisions of the parent, rollout what follows from
	// them; nil where no child has to wait for its turn.
	kept    []*object.Object
	rollout *rollout
	// shown is what the hook is shown beside the children.
	shown related.Shown
	input uint64
	reply *hook.Response
	asked int
	// latest is the first write of the latest plan, in words.
	latest string
	// latestAt is where that was to be.
	latestAt []trace.Place
	// whim is the error of a hook whose responses differ for the same request.
	whim error
	// began is how many children there were when the run began.
	began int
	// ruling is what becomes of the deletions of the latest plan, removed those of them
	// that are not made now.
	ruling  ruling
	removed []plan.Action
	// advanced is how many children were moved to the latest revision.
	advanced int
}

// reconcile gives one parent its turn.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	r, open := c.open(item)
	if !open {
		return queue.Settled()
	}
	r.takeAccount()
	outcome, verdict := trace.Skipped, queue.Settled()
	r.tellPause()
	if r.stance == pausing {
		c.deletions.drop(r.claimant())
	} else {
		outcome, verdict = r.conclude(ctx, r.attempt(ctx))
	}
	if c.program.stanceOn(r.stored) == indifferent {
		c.forget(item.Key)
	}
	r.handIn(outcome, verdict)
	return verdict
}

// attempt does what there is to do, and has the parent say how that went if it failed.
func (r *run) attempt(ctx context.Context) error {
	err := r.contained(ctx, r.converge)
	if err == nil {
		return nil
	}
	unsaid := r.contained(ctx, func(ctx context.Context) error { return r.storeFailure(ctx, err) })
	if unsaid == nil {
		return err
	}
	return worst([]error{err, unsaid})
}

// contained does a step, with a panic made an error: a defect met by one parent must
// not take the others down.
func (r *run) contained(ctx context.Context, step func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("run panicked", "parent", r.item.Key.String(), "panic", p, "stack", string(debug.Stack()))
			err = failure.New(ReasonPanicked, failure.Panicked("setpoint met a defect of its own", p))
		}
	}()
	return step(ctx)
}

// converge does for a parent what its stance asks for.
func (r *run) converge(ctx context.Context) error {
	if r.stance == releasing {
		if err := r.release(ctx); err != nil {
			return err
		}
		if r.stance = r.program.stanceOn(r.stored); r.stance != caring {
			return nil
		}
	}
	if err := r.hold(ctx); err != nil || r.silent() {
		return err
	}
	return r.settle(ctx)
}

// silent says that there is no hook to call about the parent as it is now.
func (r *run) silent() bool { return r.stance == caring && r.program.Sync == nil }

// settle asks the hook, and does as it says, until it has nothing to add to what
// it sees.
func (r *run) settle(ctx context.Context) error {
	for round := range maxRounds {
		if err := r.claim(ctx); err != nil {
			return err
		}
		if round == 0 {
			r.began = r.countChildren()
		}
		if r.finalized() {
			return r.depart(ctx)
		}
		if err := r.relate(ctx); err != nil {
			return err
		}
		if !r.news() {
			return r.heldBack()
		}
		if err := r.ask(ctx); err != nil {
			return err
		}
		todo, err := r.decide()
		if err != nil {
			return err
		}
		if err := r.carry(ctx, todo); err != nil || r.whim != nil {
			return worst([]error{r.whim, err})
		}
		r.tellReply()
		if r.memory.finalized = r.stance == finalizing && r.reply.Finalized; r.memory.finalized {
			continue
		}
		if err := r.store(ctx); err != nil {
			return err
		}
	}
	return r.unsettled()
}

// store writes what the latest response says of the parent, so that the hook is shown
// nothing but what is stored. The status waits until the children are done: it mostly
// speaks of them.
func (r *run) store(ctx context.Context) error {
	if r.memory.answered != 0 && len(r.removed) > 0 {
		return nil // That deletions are held back is said at the end, with the status.
	}
	if r.memory.answered != 0 {
		if err := r.report(r.standing()); err != nil {
			return err
		}
		return r.storeStatus(ctx)
	}
	if r.decorated() {
		return r.decorate(ctx)
	}
	return nil
}

// unsettled is the error of a hook that never has enough.
func (r *run) unsettled() error {
	if r.countChildren() > r.began || r.advanced > 0 {
		// It works in steps, one child after the other; so does a rollout.
		return errMore
	}
	if fits := r.memory.flapping.Fits(r.tools.Now()); len(fits) > 0 {
		return failure.New(ReasonFlapping, errors.New(flaps(fits[0])))
	}
	return failure.New(ReasonUnsettled, fmt.Errorf("%s hook: its responses did not settle in %d calls in a row: "+
		"what is written of each changes what the next call shows; the latest difference: %s", r.asks(), maxRounds, cmp.Or(r.latest, "in the status")))
}

// since is how long ago a moment was, by the controller's clock.
func (c *Controller) since(t time.Time) time.Duration { return c.tools.Now().Sub(t) }
