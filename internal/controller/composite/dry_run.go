package composite

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// DryRunResult is what a run of a parent would do.
type DryRunResult struct {
	// Hook is the hook that was called, "sync" or "finalize"; empty if SkipReason is set.
	Hook string
	// SkipReason says why no hook was called; empty otherwise.
	SkipReason string
	// Stored is the parent in the cluster. Parent is the same with the response applied and the
	// controller's finalizer added or removed.
	Stored, Parent *object.Object
	// Claims adopts and releases children, Revisions stores revisions, and Plan comes after both.
	Claims, Plan, Revisions plan.Plan
	// Removals are the deletions in Plan that count for the deletion guard. Held is the Parent as
	// stored if the guard holds them; nil if there are none.
	Removals []plan.Action
	Held     *object.Object
	Response *hook.Response
	// Secrets are the values of the Secrets in the call.
	Secrets *redact.Values
}

// errNoParent says that the controller has no such parent.
var errNoParent = errors.New("not a parent of this controller")

// DryRun calls the hook for a parent and plans, but writes nothing. If given is nil, it reads the
// parent from the cache. The controller must not be running.
func (c *Controller) DryRun(ctx context.Context, key queue.Key, given *object.Object) (DryRunResult, error) {
	if !c.WaitForSync(ctx) {
		return DryRunResult{}, fmt.Errorf("wait for the watches to sync: %w", context.Cause(ctx))
	}
	parent := given
	if parent == nil {
		parent = c.parents.Get(key.Namespace, key.Name)
	}
	if parent == nil {
		return DryRunResult{}, fmt.Errorf("%s %s: %w", c.program.Parent.Kind, key, errNoParent)
	}
	of, memory, _ := c.NewRun(queue.Item{Key: key}, parent)
	r := c.newRun(of, memory)
	result := DryRunResult{Stored: parent, Parent: parent, SkipReason: r.Phase.SkipReason(), Secrets: r.Secrets}
	var err error
	switch {
	case r.Phase == controller.PhaseReleasing:
		result.Parent, err = r.withoutFinalizer(parent)
	case r.hasNoHook():
		result.SkipReason = "no sync hook; the finalize hook is called when the object is deleted"
		err = r.dryRunFinalizer()
		result.Parent = r.parent
	case result.SkipReason == "":
		err = r.dryRun(ctx, &result)
	}
	return result, r.Secrets.Error(err)
}

// dryRun takes the steps of a run that write nothing.
func (r *run) dryRun(ctx context.Context, into *DryRunResult) error {
	if err := r.checkReads(ctx); err != nil {
		return err
	}
	if err := r.dryRunFinalizer(); err != nil {
		return err
	}
	if err := r.resolveSelector(); err != nil {
		return err
	}
	claims, err := r.listChildren()
	if err != nil {
		return err
	}
	into.Claims = plan.Plan{Stages: [][]plan.Action{claims}}
	r.dryRunAdopt(claims)
	if err := r.waitForRelated(ctx); err != nil {
		return err
	}
	if err := r.callHook(ctx); err != nil {
		return err
	}
	into.Hook, into.Response = r.hookName(), r.response
	if into.Plan, err = r.buildPlan(); err == nil {
		err = r.setConditions(r.syncReport())
	}
	into.Parent = r.parent
	if r.Phase == controller.PhaseManaged {
		into.Removals = r.unexplainedDeletions(into.Plan)
	}
	if err == nil && len(into.Removals) > 0 {
		into.Held, err = r.parentWithHeldDeletions(into.Removals)
	}
	if err == nil && r.Phase == controller.PhaseFinalizing && r.response.Finalized && into.Plan.Empty() {
		into.Parent, err = r.withoutFinalizer(r.parent)
	}
	if r.rollout != nil {
		into.Revisions = r.rollout.writes
	}
	return err
}

// parentWithHeldDeletions returns the parent as it is stored if the deletion guard holds the
// deletions.
func (r *run) parentWithHeldDeletions(removals []plan.Action) (*object.Object, error) {
	parent := r.parent
	defer func() { r.parent = parent }()
	r.withheld, r.guardDecision = removals, guardDecision{held: true, value: confirmationValueFor(removals)}
	err := r.setConditions(r.failureReport(r.withheldError()))
	return r.parent, err
}

// dryRunFinalizer adds the finalizer to the parent that the hook gets.
func (r *run) dryRunFinalizer() error {
	if !r.lacksFinalizer() {
		return nil
	}
	held, err := r.withFinalizer()
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	r.Stored, r.parent, r.planner.Parent = held, held, held
	return nil
}

// dryRunAdopt adds the orphans that a run would adopt to the children.
func (r *run) dryRunAdopt(claims []plan.Action) {
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

// waitForRelated waits until the related objects are listed.
func (r *run) waitForRelated(ctx context.Context) error {
	for {
		if err := r.relate(ctx); !errors.Is(err, errRelatedPending) {
			return err
		}
		if !controller.Sleep(ctx, relatedPollInterval) {
			return fmt.Errorf("wait for related objects: %w", context.Cause(ctx))
		}
	}
}
