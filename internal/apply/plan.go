package apply

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// maxParallelPerPlan bounds the writes of one plan under way at once, so that one parent
// of a thousand children leaves room for the others.
const maxParallelPerPlan = 16

// Result is what became of one action.
type Result struct {
	Action plan.Action
	// Stored is the object as the server has it now; nil when it is gone, or
	// when the action failed.
	Stored *object.Object
	// Err says why the action did not land.
	Err error
}

// Changed says that the write landed and made a difference. The server stores
// nothing where it makes of the wish what is there already.
func (r Result) Changed() bool {
	return r.Err == nil && (r.Stored == nil || r.Action.Before == nil || r.Stored.Version() != r.Action.Before.Version())
}

// MissingNamespaceError is why a write was not made: the plan was to create its namespace,
// which failed. There may be one of that name that is another owner's.
type MissingNamespaceError struct{ Namespace string }

func (e *MissingNamespaceError) Error() string {
	return fmt.Sprintf("waits for Namespace %s, which could not be created", e.Namespace)
}

// ApplyPlan carries out a plan: stage after stage, the actions of a stage at the
// same time. An action that fails does not keep the others from being tried, but for
// those in a namespace that was to be created; the results say what became of each.
func (w *Writer) ApplyPlan(ctx context.Context, p plan.Plan) []Result {
	results := make([]Result, 0, p.Len())
	var missing []string
	for _, stage := range p.Stages {
		possible, waiting := splitByNamespace(stage, missing)
		done := w.applyStage(ctx, possible)
		for _, result := range done {
			if result.Err != nil && result.Action.CreatesNamespace() {
				missing = append(missing, result.Action.Ref.Name)
			}
		}
		results = append(append(results, done...), waiting...)
	}
	return results
}

// splitByNamespace are the actions of a stage that can be tried, and the results of those that
// write into a namespace that is missing.
func splitByNamespace(stage []plan.Action, missing []string) (possible []plan.Action, waiting []Result) {
	if len(missing) == 0 {
		return stage, nil
	}
	for _, a := range stage {
		if slices.ContainsFunc(missing, a.WritesInto) {
			waiting = append(waiting, Result{Action: a, Err: fmt.Errorf("%s %s: %w", a.Verb, a.Ref, &MissingNamespaceError{a.Ref.Namespace})})
			continue
		}
		possible = append(possible, a)
	}
	return possible, waiting
}

func (w *Writer) applyStage(ctx context.Context, actions []plan.Action) []Result {
	results := make([]Result, len(actions))
	if len(actions) == 1 {
		results[0] = w.applyAction(ctx, actions[0])
		return results
	}
	var group errgroup.Group
	group.SetLimit(maxParallelPerPlan)
	for i, action := range actions {
		group.Go(func() error {
			results[i] = w.applyAction(ctx, action)
			return nil
		})
	}
	// The group's functions return no errors: they are in the results.
	_ = group.Wait()
	return results
}

func (w *Writer) applyAction(ctx context.Context, a plan.Action) Result {
	result := Result{Action: a}
	switch a.Verb {
	case plan.Create:
		result.Stored, result.Err = w.send(ctx, a.Resource, "create", w.createRequest(a.Resource, a.After, a.Manager))
	case plan.Apply:
		result.Stored, result.Err = w.serverSideApply(ctx, a)
	case plan.Delete:
		result.Stored, result.Err = w.recreate(ctx, a)
	case plan.Update, plan.Adopt, plan.Release:
		result.Stored, result.Err = w.Update(ctx, a.Resource, a.After)
	default:
		result.Err = fmt.Errorf("no such action: %q", a.Verb)
	}
	if result.Err != nil {
		result.Err = fmt.Errorf("%s %s: %w", a.Verb, a.Ref, result.Err)
	}
	return result
}
