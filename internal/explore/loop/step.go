package loop

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Run is a reconcile that has begun.
type Run struct {
	Item Item
	// View is that of the process when the run began.
	View *View
	// Exchanges are its requests so far, with their responses.
	Exchanges []Exchange
	// Now is the time of the run; that of the Options if zero.
	Now time.Time
}

// Step is what a run does after its exchanges: it sends a request, or it ends.
type Step struct {
	// Request is nil if the run has ended.
	Request *Request
	// Writes are the own writes that the run has put into the cache since its latest exchange. View is that of the
	// run with all of them, and with the events of the exchanges.
	Writes []cache.Write
	View   *View
	// Queued are other items that the run has queued so far.
	Queued []Item
	// Calls are the calls of hooks so far.
	Calls []Call
	End   *End
	// Err means that the run cannot be stepped: it is not repeatable, or the context has ended.
	Err error
}

// End is how a run ended.
type End struct {
	// Outcome says whether the item comes back, and after which delay.
	Outcome queue.Outcome
	// Requeue is what the run planned beside the outcome, such as a resync; its delay is zero for nothing.
	Requeue Requeue
	// Result is the outcome in words, Err the error of the run; nil if it succeeded.
	Result record.Outcome
	Err    error
	// Reason is that of the error, such as HookFailed.
	Reason string
	// Panicked means that Setpoint, or a function in Go, panicked.
	Panicked bool
	// Events are the Kubernetes events that the run has sent.
	Events []SentEvent
	// Runs are the records of the run, and before it those of calls about deleted objects: calls, plans and writes.
	Runs []record.Run
}

// Requeue is a run that is planned for later.
type Requeue struct {
	Cause queue.Cause
	After time.Duration
}

// Step runs a reconcile from its beginning until the request after its exchanges, or to its end.
func (p *Process) Step(ctx context.Context, run Run) Step {
	now := run.Now
	if now.IsZero() {
		now = p.options.Now
	}
	s := p.begin(run.View, now)
	defer s.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.transport.begin(run.Exchanges, s.useExchange, stop)
	p.calls.begin(ctx)
	if len(p.programs.Indexes) > 0 {
		p.calls.indexed = run.View.digest()
	}
	outcome, err := s.runItem(ctx, run.Item)
	step := Step{Request: p.transport.request, Err: p.transport.diverged, Calls: p.calls.made}
	s.observe()
	step.Writes, step.View = s.fresh, s.view
	switch {
	case step.Request != nil || step.Err != nil:
		return step
	case ctx.Err() != nil:
		step.Err = ctx.Err()
		return step
	}
	step.End = s.end(run.Item, outcome, err)
	step.Queued = s.drain()
	return step
}

// useExchange goes on after an exchange.
func (s *session) useExchange(e *Exchange) {
	s.observe()
	for _, event := range e.Events {
		s.deliver(event)
	}
	s.fresh = nil
}

// observe adds to the view what the run has put into the cache since the last time.
func (s *session) observe() {
	writes := s.cache.Writes()
	if s.fresh = writes[s.observed:]; len(s.fresh) > 0 {
		s.view, s.observed = s.view.Observe(s.fresh...), len(writes)
	}
}

// runItem runs the controller of an item. A panic is an error.
func (s *session) runItem(ctx context.Context, item Item) (outcome queue.Outcome, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = failure.WithReason(controller.ReasonInternalError, failure.FromPanic("the run panicked", value))
		}
	}()
	return s.workers[item.Program].run(ctx, item), nil
}

// end returns how the run of an item ended.
func (s *session) end(item Item, outcome queue.Outcome, err error) *End {
	end := &End{Outcome: outcome, Err: err, Events: s.observer.events, Runs: s.observer.runs, Result: record.Skipped}
	if last := len(end.Runs) - 1; last >= 0 {
		end.Result = end.Runs[last].Outcome
		if end.Err == nil {
			end.Err = end.Runs[last].Err
		}
	}
	if end.Err != nil {
		end.Result, end.Reason, end.Panicked = record.Failed, controller.ReasonOf(end.Err), failure.IsPanic(end.Err)
	}
	end.Requeue.Cause, end.Requeue.After, _ = s.workers[item.Program].Queue.Delayed(item.Key)
	return end
}
