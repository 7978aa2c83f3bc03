package loop

import (
	"cmp"
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Run is a reconcile that has begun.
type Run struct {
	Item Item
	// View is that of the process when the run began.
	View *View
	// Exchanges are its requests so far, with their responses.
	Exchanges []Exchange
}

// Step is what a run does after its exchanges: it sends a request, or it ends.
type Step struct {
	// Request is nil if the run has ended.
	Request *Request
	// Writes are the own writes that the run has put into the cache since its latest exchange.
	Writes []cache.Write
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
	// Err is the error of the run; nil if it succeeded.
	Err error
	// Panicked means that Setpoint, or a function in Go, panicked.
	Panicked bool
}

// Requeue is a run that is planned for later.
type Requeue struct {
	Cause queue.Cause
	After time.Duration
}

// Step runs a reconcile from its beginning until the request after its exchanges, or to its end.
func (p *Process) Step(ctx context.Context, run Run) Step {
	s := p.begin(run.View)
	defer s.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.transport.begin(run.Exchanges, s.goOn, stop)
	p.calls.begin(ctx)
	if len(p.programs.Indexes) > 0 {
		p.calls.indexed = run.View.digest()
	}
	outcome, err := s.runItem(ctx, run.Item)
	step := Step{Request: p.transport.request, Err: p.transport.diverged, Calls: p.calls.made, Writes: s.cache.Writes()[s.observed:]}
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

// goOn notes that an exchange was used.
func (s *session) goOn() { s.observed = len(s.cache.Writes()) }

// runItem runs the controller of an item. A panic is an error.
func (s *session) runItem(ctx context.Context, item Item) (outcome queue.Outcome, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = failure.FromPanic("the run panicked", value)
		}
	}()
	return s.workers[item.Program].run(ctx, item), nil
}

// end returns how the run of an item ended.
func (s *session) end(item Item, outcome queue.Outcome, err error) *End {
	end := &End{Outcome: outcome, Err: cmp.Or(err, s.observer.err)}
	end.Panicked = failure.IsPanic(end.Err)
	end.Requeue.Cause, end.Requeue.After, _ = s.workers[item.Program].Queue.Delayed(item.Key)
	return end
}
