package composite

import (
	"context"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// call calls a hook for one revision of the parent and records the call.
func (r *run) call(ctx context.Context, h hook.Hook, request *hook.Request, at record.Revision) (*hook.Response, error) {
	began := r.Record.Now()
	ctx, output := r.withOutput(ctx)
	asked, said := record.Request{ControllerType: r.program.form(), Sync: request}, record.Response{}
	r.See(&asked, &record.Response{})
	response, err := withRecover(r, r.hookName(), func() (*hook.Response, error) { return h.Call(ctx, request) })
	if err == nil {
		// The run changes the response; the record keeps the original.
		original := *response
		said.Sync = &original
		r.See(&record.Request{}, &said)
	}
	r.Record.Called(began, record.Call{Name: r.hookName(), Version: r.logic.Version, Revision: at, Request: asked, Response: said, Err: err,
		Output: output})
	return response, err
}

// withOutput returns a context for a call of a hook, and what it prints, if that is recorded.
func (r *run) withOutput(ctx context.Context) (context.Context, *call.Output) {
	if !r.Record.Detailed() {
		return ctx, nil
	}
	return call.WithOutput(ctx)
}

// withRecover calls a hook, which may be a Go function.
func withRecover[T any](r *run, name string, do func() (T, error)) (response T, err error) {
	err = r.CallUserCode("the function", failure.Hook, []any{"hook", name, "object", r.Item.Key.String()}, r.Secrets, func() (err error) {
		response, err = do()
		return err
	})
	return response, err
}

func (r *run) applyPlan(ctx context.Context, todo plan.Plan) []apply.Result {
	began := r.Record.Now()
	results := r.writer().ApplyPlan(ctx, todo)
	r.Record.Applied(began, results)
	return results
}

// countUnchanged returns how many children a plan does not write.
func (r *run) countUnchanged(todo plan.Plan) int {
	left := r.countChildren()
	for _, stage := range todo.Stages {
		for i := range stage {
			if stage[i].Before != nil {
				left--
			}
		}
	}
	return max(left, 0)
}
