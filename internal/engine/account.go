package engine

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// takeAccount begins the account of the run.
func (r *run) takeAccount() {
	now := r.tools.Now()
	begin := trace.Open
	if r.tools.Unrecorded {
		begin = trace.Brief
	}
	r.account = begin(trace.Run{
		Program: r.program.Name, Resource: r.program.Parent, Key: r.item.Key, UID: r.stored.UID(),
		Causes: r.item.Causes, Attempt: r.item.Attempt, Began: now, Waited: min(r.item.Waited, now.Sub(r.Controller.began)),
	}, r.tools.Now)
}

// handIn ends the account and gives it to whoever observes.
func (r *run) handIn(outcome trace.Outcome, verdict queue.Outcome) {
	ran := r.account.Close(outcome)
	if r.account.Whole() && !ran.Quiet() {
		ran.Next = r.next(verdict)
	}
	r.tools.Observer.Ran(ran)
}

// next is when the parent comes again, as far as that is known. What else waits for it
// to do so does not bring it back before a delay of the verdict has passed.
func (r *run) next(verdict queue.Outcome) time.Time {
	if delay := verdict.Delay(); delay > 0 {
		return r.tools.Now().Add(delay)
	}
	return r.queue.Pending(r.item.Key).Next
}

// call calls a hook about one revision of the parent.
func (r *run) call(ctx context.Context, asked hook.Hook, request *hook.Request, at trace.Revision) (*hook.Response, error) {
	began := r.account.Now()
	reply, err := recovered(r, r.asks(), func() (*hook.Response, error) { return asked.Call(ctx, request) })
	if !r.account.Whole() {
		return reply, err
	}
	ask := trace.Ask{What: r.asks(), Revision: at, Question: trace.Question{Form: r.form(), Sync: request}, Err: err}
	if err == nil {
		// The reply is worked on from here on; what the hook said stays.
		said := *reply
		ask.Answer.Sync = &said
	}
	r.account.Asked(began, ask)
	return reply, err
}

// recovered calls a hook, which may be a function of this program: a panic or a
// runtime.Goexit of it is its error like any.
func recovered[T any](r *run, name string, do func() (T, error)) (response T, err error) {
	err = failure.Contain("the function", func() (err error) {
		response, err = do()
		return err
	})
	if stack, crashed := failure.Crashed(err); crashed {
		r.log.Error("hook crashed", "hook", name, "parent", r.item.Key.String(), "error", failure.OneLine(err), "stack", stack)
	}
	return response, failure.By(failure.Hook, err)
}

func (r *run) form() hook.Form {
	if r.program.decorates() {
		return hook.Decorator
	}
	return hook.Composite
}

// carried has a plan carried out.
func (r *run) carried(ctx context.Context, todo plan.Plan) []apply.Result {
	began := r.account.Now()
	results := r.tools.Writer.Carry(ctx, todo)
	r.account.Carried(began, results)
	return results
}

// untouchedBy is how many children a plan leaves as they are.
func (r *run) untouchedBy(todo plan.Plan) int {
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

// say tells the parent's user something.
func (r *run) say(event hook.Event) {
	r.tools.Observer.Tell(r.stored, event)
	r.account.Told(event)
}
