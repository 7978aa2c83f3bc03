package loop

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Start returns what a process queues that has just listed all objects.
func (p *Process) Start(view *View) []Item {
	p.calls.begin(context.Background())
	s := p.open(view, fixedTime)
	defer s.release()
	return s.drain()
}

// Deliver passes an event to the cache of the process. It returns what the event queues, with the causes. Events of one
// kind are delivered in the order of their versions, as by a watch.
//
// Related objects are those that customize hooks select for the parents in the view. Their calls end with the context.
func (p *Process) Deliver(ctx context.Context, view *View, e Event) []Item {
	if !p.Watches(e.Resource) {
		return nil
	}
	if e.Resource == OutageResource {
		return p.Start(view.After(e)) // The controllers start again, with the current objects.
	}
	p.calls.begin(ctx)
	s := p.begin(view)
	defer s.release()
	s.relateAll(ctx)
	s.deliver(e)
	items := s.drain()
	for i := range items {
		p.addEvent(&items[i], view, e)
	}
	return items
}

// Observe returns what the process queues when one of its runs puts the result of a write into the cache: others may
// watch the object, or have had a previous one of the name.
func (p *Process) Observe(ctx context.Context, view *View, write cache.Write) []Item {
	p.calls.begin(ctx)
	s := p.begin(view)
	defer s.release()
	s.relateAll(ctx)
	s.cache.Observe(write)
	return s.drain()
}

// addEvent adds the event to an item if handlers of the program are called for it.
func (p *Process) addEvent(item *Item, view *View, e Event) {
	program := p.handles(*item)
	if program == nil || program.Resource.GroupKind() != e.Resource.GroupKind() || controller.KeyOf(e.Object) != item.Key {
		return
	}
	calls := func(h trigger.Handler) bool {
		return slices.Contains(h.On, hook.ReasonEvent) || e.Deleted && slices.Contains(h.On, hook.ReasonDelete)
	}
	if !slices.ContainsFunc(program.Handlers, calls) {
		return
	}
	event := cache.Event{Old: view.Get(e.Resource, e.Object.Namespace(), e.Object.Name()), New: e.Object}
	if e.Deleted {
		event.New = nil
	}
	item.events = append(item.events, event)
}

// handles returns the handlers of an item's program; nil for another one.
func (p *Process) handles(item Item) *handler.Program {
	if at := item.Program - len(p.programs.Compose); at >= 0 {
		return &p.programs.Handle[at]
	}
	return nil
}

// MayRead reports whether a run of an item may read an object that is neither its own, nor refers to its UID, nor has
// a name under which it writes, or whether an event of the object may queue the item. What has no controller may be
// adopted, and a customize hook may select anything.
func (p *Process) MayRead(item Item, o *object.Object) bool {
	if handles := p.handles(item); handles != nil {
		return len(handles.Related)+len(handles.Reads) > 0
	}
	program := &p.programs.Compose[item.Program]
	_, isChild := program.Children.For(o.GroupKind())
	_, controlled := o.Controller()
	return program.Customize != nil || isChild && !controlled
}

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
	defer s.release()
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
	step.End = s.endOf(run.Item, outcome, err)
	step.Queued = s.drain()
	return step
}

func (s *session) endOf(item Item, outcome queue.Outcome, err error) *End {
	end := &End{Outcome: outcome, Err: cmp.Or(err, s.observer.err)}
	end.Panicked = failure.IsPanic(end.Err)
	end.Requeue.Cause, end.Requeue.After, _ = s.workers[item.Program].Queue.Delayed(item.Key)
	return end
}
