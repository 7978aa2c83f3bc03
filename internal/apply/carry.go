package apply

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// perPlan bounds the writes of one plan under way at once, so that one parent
// of a thousand children leaves room for the others.
const perPlan = 16

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

// Carry carries out a plan: stage after stage, the actions of a stage at the
// same time. An action that fails does not keep the others from being tried;
// the results say what became of each.
func (w *Writer) Carry(ctx context.Context, p plan.Plan) []Result {
	results := make([]Result, 0, p.Len())
	for _, stage := range p.Stages {
		results = append(results, w.stage(ctx, stage)...)
	}
	return results
}

func (w *Writer) stage(ctx context.Context, actions []plan.Action) []Result {
	results := make([]Result, len(actions))
	if len(actions) == 1 {
		results[0] = w.do(ctx, actions[0])
		return results
	}
	var group errgroup.Group
	group.SetLimit(perPlan)
	for i, action := range actions {
		group.Go(func() error {
			results[i] = w.do(ctx, action)
			return nil
		})
	}
	// The group's functions return no errors: they are in the results.
	_ = group.Wait()
	return results
}

func (w *Writer) do(ctx context.Context, a plan.Action) Result {
	result := Result{Action: a}
	switch a.Verb {
	case plan.Create:
		result.Stored, result.Err = w.send(ctx, a.Resource, "create", w.posting(a.Resource, a.After, a.Manager))
	case plan.Apply:
		result.Stored, result.Err = w.apply(ctx, a)
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
