package composite

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// DryRunResult is what a run of a parent would do, until the hook would be called again.
type DryRunResult struct {
	// Hook is the hook that was called, "sync" or "finalize"; empty if none has responded.
	Hook string
	// SkipReason says why no hook was called; empty otherwise.
	SkipReason string
	// Stored is the parent in the cluster. Parent is the same after the run.
	Stored, Parent *object.Object
	// Plan adopts and releases children, then stores revisions, then writes children.
	Plan plan.Plan
	// Removals are the deletions in Plan that count for the deletion guard. Held is the Parent as
	// stored if the guard holds them; nil if there are none.
	Removals []plan.Action
	Held     *object.Object
	Response *hook.Response
	// Secrets are the values of the Secrets in the call.
	Secrets *redact.Values
}

// DryRun runs a parent with a writer that does not write. If given is nil, it reads the parent from the
// cache. The result has what the run would do before its error. The controller must not be running.
func (c *Controller) DryRun(ctx context.Context, key queue.Key, given *object.Object) (DryRunResult, error) {
	if !c.WaitForSync(ctx) {
		return DryRunResult{}, fmt.Errorf("wait for the watches to sync: %w", context.Cause(ctx))
	}
	parent := cmp.Or(given, c.Get(key))
	if parent == nil {
		return DryRunResult{}, fmt.Errorf("%s %s: not a parent of this controller", c.program.Parent.Kind, key)
	}
	for known := c.NewMemory(); ; {
		of := c.NewRun(queue.Item{Key: key, Causes: queue.NewCauses(queue.Cause{Kind: queue.Resync})}, parent)
		of.Remembered = known
		r := c.newRun(of)
		r.dry = apply.NewDryWriter(r.WriterFor(parent.Namespace()), parent)
		r.writer, r.Phase = r.dry, r.PhaseOf(parent)
		result := DryRunResult{Stored: parent, Parent: parent, SkipReason: r.Phase.SkipReason(), Secrets: r.Secrets}
		if r.callsNothing() {
			result.SkipReason = "no sync hook; the finalize hook is called when the object is deleted"
		}
		if r.Phase == controller.PhasePaused || r.Phase == controller.PhaseIgnored {
			return result, nil
		}
		switch err := r.Recover(func() error { return r.reconcileParent(ctx) }); {
		case !errors.Is(err, errRelatedPending):
			err = cmp.Or(err, r.Secrets.Error(r.addTo(ctx, &result)))
			return result, err
		case !controller.Sleep(ctx, related.PollInterval):
			return result, fmt.Errorf("wait for related objects: %w", context.Cause(ctx))
		}
	}
}

func (r *run) addTo(ctx context.Context, result *DryRunResult) (err error) {
	result.Plan, result.Removals = r.dry.Plan, r.removals
	if r.calls > 0 {
		result.SkipReason = ""
	}
	if r.response != nil {
		result.Hook, result.Response = hookName(r.Phase), r.response
	}
	if result.Parent, err = r.dry.Get(ctx, r.program.Parent, r.Item.Key.Namespace, r.Item.Key.Name); err != nil ||
		len(result.Removals) == 0 {
		return err
	}
	r.Stored, r.status.wanted = result.Stored, result.Parent
	r.guarded = guard.Hold(result.Removals)
	err = r.status.setConditions(r.failureReport(r.withheldError()))
	result.Held = r.status.wanted
	return err
}
