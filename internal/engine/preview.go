package engine

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
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Preview is what a run of a parent would do.
type Preview struct {
	// Asked is the hook that was asked, "sync" or "finalize"; empty when nobody
	// was, because of Untouched.
	Asked string
	// Untouched says why the parent would be left alone; empty otherwise.
	Untouched string
	// Stored is the parent as it is, Parent the same with the reply laid over, and
	// with the controller's finalizer on it, or off.
	Stored, Parent *object.Object
	// Claims take in and let go of children, Plan does the rest.
	// Revisions are kept before it does.
	Claims, Plan, Revisions plan.Plan
	// Removals are the deletions of Plan that the deletion guard counts, Held is the
	// Parent if it holds them; nil if there are none.
	Removals []plan.Action
	Held     *object.Object
	Reply    *hook.Response
}

// errNoParent says that there is nothing to preview.
var errNoParent = errors.New("there is no such object among the parents of this controller")

// Parents are the objects in the care of the controller, sorted by namespace and
// name. Those that are not listed yet are missing.
func (c *Controller) Parents() []*object.Object {
	var parents []*object.Object
	for parent := range c.parents.All() {
		if c.program.stanceOn(parent) != indifferent {
			parents = append(parents, parent)
		}
	}
	slices.SortFunc(parents, func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
	})
	return parents
}

// Preview asks the hook about a parent and plans, and writes nothing. Without an
// object given, the one of the key is looked up; one given need not be stored.
// The controller must not be running.
func (c *Controller) Preview(ctx context.Context, key queue.Key, given *object.Object) (Preview, error) {
	if !c.wait(ctx) {
		return Preview{}, fmt.Errorf("wait for the watches to sync: %w", context.Cause(ctx))
	}
	parent := given
	if parent == nil {
		parent = c.parents.Get(key.Namespace, key.Name)
	}
	if parent == nil {
		return Preview{}, fmt.Errorf("%s %s: %w", c.program.Parent.Kind, key, errNoParent)
	}
	r := c.runFor(queue.Item{Key: key}, parent)
	preview := Preview{Stored: parent, Parent: parent, Untouched: r.untouched()}
	var err error
	switch {
	case r.stance == releasing:
		preview.Parent, err = r.released(parent)
	case r.silent():
		err = r.holdInThought()
		preview.Parent = r.parent
	case preview.Untouched == "":
		err = r.preview(ctx, &preview)
	}
	return preview, err
}

// untouched says why nobody is asked about the parent.
func (r *run) untouched() string {
	switch r.stance {
	case indifferent:
		return "not in the care of this controller: its labels or annotations do not match, or it is going away"
	case pausing:
		return "paused by its annotation"
	case releasing:
		return "only the finalizer of this controller is to be removed"
	case caring:
		if r.silent() {
			return "no sync hook: only its finalize hook is called, once it is being deleted"
		}
	}
	return ""
}

// preview takes the steps of a run, but for those that write.
func (r *run) preview(ctx context.Context, into *Preview) error {
	if err := r.holdInThought(); err != nil {
		return err
	}
	if err := r.recognise(); err != nil {
		return err
	}
	claims, err := r.lookAround()
	if err != nil {
		return err
	}
	into.Claims = plan.Plan{Stages: [][]plan.Action{claims}}
	r.adoptInThought(claims)
	if err := r.relateAndWait(ctx); err != nil {
		return err
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	into.Asked, into.Reply = r.asks(), r.reply
	if into.Plan, err = r.decide(); err == nil {
		err = r.report(r.standing())
	}
	into.Parent = r.parent
	if r.stance == caring {
		into.Removals = r.unexplained(into.Plan)
	}
	if err == nil && len(into.Removals) > 0 {
		into.Held, err = r.parentHeld(into.Removals)
	}
	if err == nil && r.stance == finalizing && r.reply.Finalized && into.Plan.Empty() {
		into.Parent, err = r.released(r.parent)
	}
	if r.rollout != nil {
		into.Revisions = r.rollout.writes
	}
	return err
}

// parentHeld is the parent as it is stored when the deletion guard holds deletions.
func (r *run) parentHeld(removals []plan.Action) (*object.Object, error) {
	parent := r.parent
	defer func() { r.parent = parent }()
	r.removed, r.ruling = removals, ruling{held: true, value: valueOfAll(removals)}
	err := r.report(r.troubleIn(r.heldBack()))
	return r.parent, err
}

// holdInThought shows the hook the parent with the finalizer on it.
func (r *run) holdInThought() error {
	if r.program.Finalize == nil || r.stance != caring || r.program.holds(r.stored) {
		return nil
	}
	held, err := withFinalizers(r.stored, append(r.stored.Finalizers(), r.program.Finalizer))
	if err != nil {
		return failure.New(ReasonWriteFailed, err)
	}
	r.stored, r.parent, r.family.Parent = held, held, held
	return nil
}

// released is a parent without the finalizer.
func (r *run) released(parent *object.Object) (*object.Object, error) {
	ours := func(name string) bool { return name == r.program.Finalizer }
	return withFinalizers(parent, slices.DeleteFunc(parent.Finalizers(), ours))
}

// adoptInThought shows the hook the orphans that would have been taken in.
func (r *run) adoptInThought(claims []plan.Action) {
	for _, claim := range claims {
		if claim.Verb != plan.Adopt {
			continue
		}
		for i, kind := range r.Controller.children {
			if kind.rule.Resource == claim.Resource {
				r.children[i] = append(r.children[i], claim.After)
			}
		}
	}
}

// relateAndWait waits for the watches that a running controller would be woken by.
func (r *run) relateAndWait(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := r.relate(ctx); !errors.Is(err, errWaiting) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for related objects: %w", context.Cause(ctx))
		}
	}
}
