package compose

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func (r *run) startRecord() {
	r.record = r.NewRecord(record.Run{
		Key: r.item.Key, UID: r.stored.UID(), Causes: r.item.Causes, Attempt: r.item.Attempt,
		StartTime: r.tools.Now(), QueueDuration: r.Waited(r.item),
	})
}

// finishRecord passes the record to the observer.
func (r *run) finishRecord(outcome record.Outcome, requeue queue.Outcome) {
	ran := r.record.Finish(outcome)
	if r.record.Detailed() && !ran.IsNoop() {
		ran.NextRun = r.nextRun(requeue)
	}
	r.tools.Observer.Ran(ran)
}

// nextRun returns when the parent is reconciled next, if that is known. A delay in the outcome
// comes before anything else that is queued.
func (r *run) nextRun(requeue queue.Outcome) time.Time {
	if delay := requeue.Delay(); delay > 0 {
		return r.tools.Now().Add(delay)
	}
	return r.Queue.Pending(r.item.Key).Next
}

// call calls a hook for one revision of the parent and records the call.
func (r *run) call(ctx context.Context, h hook.Hook, request *hook.Request, at record.Revision) (*hook.Response, error) {
	began := r.record.Now()
	response, err := withRecover(r, r.hookName(), func() (*hook.Response, error) { return h.Call(ctx, request) })
	if !r.record.Detailed() {
		return response, err
	}
	call := record.Call{Name: r.hookName(), Revision: at, Request: record.Request{ControllerType: r.form(), Sync: request}, Err: err}
	if err == nil {
		// The run changes the response; the record keeps the original.
		said := *response
		call.Response.Sync = &said
	}
	r.record.Called(began, call)
	return response, err
}

// withRecover calls a hook. The hook may be a Go function, so a panic or runtime.Goexit becomes an
// error.
func withRecover[T any](r *run, name string, do func() (T, error)) (response T, err error) {
	err = failure.Recover("the function", func() (err error) {
		response, err = do()
		return err
	})
	if stack, crashed := failure.PanicStack(err); crashed {
		r.Log.Error("hook crashed", "hook", name, "parent", r.item.Key.String(), "error", failure.OneLine(err), "stack", stack)
	}
	return response, failure.WithSource(failure.Hook, err)
}

func (r *run) form() hook.ControllerType {
	if r.program.isDecorator() {
		return hook.Decorator
	}
	return hook.Composite
}

func (r *run) applyPlan(ctx context.Context, todo plan.Plan) []apply.Result {
	began := r.record.Now()
	results := r.tools.Writer.ApplyPlan(ctx, todo)
	r.record.Applied(began, results)
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

func (r *run) sendEvent(event hook.Event) { r.SendEvent(r.record, r.stored, event) }
