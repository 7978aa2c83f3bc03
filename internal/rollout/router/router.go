// Package router is in front of the loop of composites: it chooses the version of the hooks that is called for each
// parent, observes the runs for a rollout of the logic, and compares the versions before the first parent moves.
//
// It writes nothing, and never delays or fails a run. Package rollout decides from what it observed how far parents move.
package router

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// Options describe the program whose runs a router is in front of.
type Options struct {
	// Logic is the version in the spec. Former is the one for the parents that have not moved yet; nil if all have.
	Logic  controller.Logic
	Former *controller.Logic
	// Assignment and Reported are shared by the programs of one controller; nil for their own.
	Assignment *Assignment
	Reported   *Reported
	PhaseOf    func(*object.Object) controller.Phase
	Now        func() time.Time

	// ControllerType is that of requests, CustomizeRequest the one about a parent.
	ControllerType   hook.ControllerType
	CustomizeRequest func(parent *object.Object) *hook.CustomizeRequest
	// Related has the related objects of the new version while it is compared; nil without a customize hook.
	Related *related.Registry
	// CheckReads returns an error unless the controller may read related objects of a parent.
	CheckReads func(ctx context.Context, parent *object.Object, reads []related.Read) error
	// SyncFailure says in an error that the sync hook has failed.
	SyncFailure func(error) error
}

// Router chooses the version for the parents of one program.
type Router struct {
	Options

	base        *controller.Base
	comparisons sync.WaitGroup
}

// New returns the router of a controller.
func New(base *controller.Base, options Options) *Router {
	if options.Assignment == nil {
		options.Assignment = NewAssignment()
	}
	if options.Reported == nil {
		options.Reported = NewReported("", "")
	}
	return &Router{Options: options, base: base}
}

// Of returns the version that is called for a parent.
func (r *Router) Of(parent *object.Object) controller.Logic {
	if r.Former == nil {
		return r.Logic
	}
	if !r.Assignment.hasMoved(parent) {
		return *r.Former
	}
	moved := r.Logic
	moved.Moved = true
	return moved
}

// byFormer reports whether the version before is called for a parent that it manages.
func (r *Router) byFormer(run *Run) bool {
	return r.Former != nil && run.Logic.Version != r.Logic.Version && run.Phase == controller.PhaseManaged
}

// Call is a call of the sync or the finalize hook.
type Call struct {
	Request  *hook.Request
	Response *hook.Response
	Err      error
	Planner  *plan.Planner
}

// Called observes a call. It may begin a comparison, which goes on in the background.
func (r *Router) Called(ctx context.Context, run *Run, call *Call) {
	if call.Err == nil && run.Phase == controller.PhaseManaged {
		r.Reported.note(r.parent(run.Stored), run.Logic.Version, call.Response.LogicVersion, run.Secrets, r.Now())
	}
	if _, delayed := hook.RetryDelay(call.Err); r.byFormer(run) && ctx.Err() == nil && !delayed { // Else it gets no response yet.
		r.compareLater(ctx, run, call)
	}
}

// Ended observes the end of a run.
func (r *Router) Ended(run *Run, end *End) {
	if r.Former == nil {
		return
	}
	r.Assignment.note(r.parent(run.Stored), run, end, run.Logic.Version == r.Logic.Version)
	if r.byFormer(run) {
		r.noteNotCompared(run, end)
	}
}

// Describe adds what is known of a parent.
func (r *Router) Describe(o *object.Object, state *record.ObjectState) {
	state.LogicVersion = r.Reported.versionOf(r.parent(o))
	state.Shadow = r.Assignment.shadow.describe(r.parent(o))
}

// Drop drops what is known of a parent.
func (r *Router) Drop(key queue.Key) {
	r.Assignment.drop(r.base.ID(key))
	r.Reported.drop(r.base.ID(key))
}

// Wait waits for the comparisons.
func (r *Router) Wait() { r.comparisons.Wait() }

func (r *Router) parent(o *object.Object) parent {
	return parent{r.base.ID(controller.KeyOf(o)), o.UID()}
}

// Rollout returns what a rollout knows of the parents.
func (r *Router) Rollout() rollout.Observed {
	if !r.base.Running() {
		return rollout.Observed{Unknown: true} // The caches may not have synced.
	}
	var all rollout.Observed
	for o := range r.base.Managed() {
		if r.PhaseOf(o) != controller.PhaseManaged {
			continue // Nothing may reconcile it while it is paused.
		}
		all.Hashes = append(all.Hashes, rollout.Hash(o.UID()))
		all.Add(r.ObservedOf(o))
		r.Assignment.shadow.observe(r.parent(o), o, &all)
	}
	return all
}

// ObservedOf returns what is known of a parent that has moved; zero of others.
func (r *Router) ObservedOf(o *object.Object) rollout.Observed {
	return r.Assignment.observed(r.parent(o), o)
}

// QueueMoved queues the parents between two positions, in the order in which they move. With a rate per second
// they follow one after the other.
func (r *Router) QueueMoved(from, to int64, rate int) {
	low, high := min(from, to), max(from, to)
	var moved []*object.Object
	for o := range r.base.Managed() {
		if rollout.Moved(o.UID(), high) && !rollout.Moved(o.UID(), low) {
			moved = append(moved, o)
		}
	}
	slices.SortFunc(moved, func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(rollout.Hash(a.UID()), rollout.Hash(b.UID())), strings.Compare(a.UID(), b.UID()))
	})
	for i, o := range moved {
		cause := queue.Cause{Kind: queue.LogicChanged, Detail: r.Of(o).Version}
		r.base.Queue.AddAfter(controller.KeyOf(o), cause, delayAt(i, rate))
	}
}

// delayAt spreads parents over time, so many per second; 0 for no limit.
func delayAt(i, rate int) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(i) * time.Second / time.Duration(rate)
}

// QueueOlder queues parents that a hook of an older version reconciled last, at most so many. It returns how many more
// may be queued.
func (r *Router) QueueOlder(limit int) (left int) {
	if r.Reported.isEmpty() {
		return limit
	}
	for o := range r.base.Managed() {
		if limit == 0 {
			break
		}
		if current, is := r.Reported.older(r.parent(o), r.Now()); is && r.PhaseOf(o) == controller.PhaseManaged {
			limit--
			r.base.Queue.Add(controller.KeyOf(o), queue.Cause{Kind: queue.LogicChanged, Detail: current})
		}
	}
	return limit
}

// QueueShadow queues parents for which the versions were not compared yet.
func (r *Router) QueueShadow() {
	s := &r.Assignment.shadow
	if !s.isOn() {
		return
	}
	var all []parent
	for o := range r.base.Managed() {
		if r.PhaseOf(o) == controller.PhaseManaged {
			all = append(all, r.parent(o))
		}
	}
	cause := queue.Cause{Kind: queue.LogicCompared, Detail: r.Logic.Version}
	for _, of := range s.due(all, r.Now()) {
		r.base.Queue.Add(of.Key, cause)
	}
}
