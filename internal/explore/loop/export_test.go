package loop

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Restarted returns the view of a process that starts with a list as old as the events that this one has seen.
func (v *View) Restarted() *View {
	next := v.clone()
	next.writes = nil
	return next
}

// Received returns the view after an event: own writes of the object up to its version are no longer to come.
func (v *View) Received(e Event) *View {
	next := v.After(e)
	next.writes = slices.DeleteFunc(slices.Clone(next.writes), func(w cache.Write) bool {
		return w.Selection.Resource.GroupKind() == e.Resource.GroupKind() && compareNames(w.Object, e.Object) == 0 &&
			w.Object.Version() <= e.Object.Version()
	})
	return next
}

// Writes returns the own writes whose events are still to come, in order.
func (v *View) Writes() []cache.Write { return v.writes }

// Memo returns what the hooks responded.
func (p *Process) Memo() *Memo { return p.options.Memo }

// NewWriter returns a writer that sends its requests to a transport.
func NewWriter(transport http.RoundTripper) (*apply.Writer, error) {
	client, err := newClient(transport)
	return apply.New(client, apply.Options{Parallel: 1}), err
}

// Planned is what a dry run says.
type Planned struct {
	// Stored is the object in the cache, After the same after the run. Plan has the writes of others.
	Stored, After *object.Object
	Plan          plan.Plan
	// Handled means that the program has handlers.
	Handled bool
}

// DryRun is a dry run of an item. The transport handles its requests.
func (p *Process) DryRun(ctx context.Context, view *View, item Item, transport http.RoundTripper) (said Planned, err error) {
	sends := p.writer
	defer func() { p.writer = sends }()
	if p.writer, err = NewWriter(transport); err != nil {
		return said, err
	}
	s := p.begin(view)
	defer s.release()
	p.calls.begin(ctx)
	options := queue.Options{Now: fixedTime, Random: func() float64 { return 0 }}
	if p.handles(item) == nil {
		c := p.newComposite(s, item.Program, options)
		defer c.Close()
		result, err := c.DryRun(ctx, item.Key, nil)
		return Planned{Stored: result.Stored, After: result.Parent, Plan: result.Plan}, err
	}
	c := p.newHandler(s, item.Program-len(p.programs.Compose), options)
	defer c.Close()
	result, err := c.DryRun(ctx, handler.DryRunRequest{Key: item.Key})
	said = Planned{Stored: result.Stored, After: result.Object, Handled: true}
	for _, call := range result.Calls {
		err = cmp.Or(err, call.Err)
		for _, action := range call.Writes {
			said.Plan.Stages = append(said.Plan.Stages, []plan.Action{action})
		}
	}
	return said, err
}

// Living is a process that keeps its memory between runs, and its delays. Unlike what a Process does, that is no
// function of values, so that only a walk can use it, not a search.
type Living struct{ session *session }

// NewLiving starts a process with a view. The transport handles its requests, in the goroutine of Run.
func NewLiving(programs Programs, options Options, view *View, transport http.RoundTripper) (*Living, error) {
	p, err := NewProcess(programs, options)
	if err != nil {
		return nil, err
	}
	client, err := newClient(transport)
	if err != nil {
		return nil, err
	}
	p.writer = apply.New(client, apply.Options{Parallel: 1})
	p.calls.begin(context.Background())
	return &Living{p.open(view, time.Now)}, nil
}

// Deliver passes an event to the cache.
func (l *Living) Deliver(e Event) { l.session.deliver(e) }

// Queued is the number of items that could run now.
func (l *Living) Queued() int {
	n := 0
	for _, w := range l.session.workers {
		n += w.Queue.Len()
	}
	return n
}

// Run reconciles an item that is queued, and says which before it does.
func (l *Living) Run(ctx context.Context, begins func(string)) {
	for i, w := range l.session.workers {
		if w.Queue.Len() > 0 {
			item, _ := w.Queue.Next(context.Background())
			begins(item.Key.String() + ": " + item.Causes.String())
			w.Queue.Done(item.Key, w.run(ctx, Item{Item: item, Program: i}))
			return
		}
	}
}

// Failing is the number of objects whose latest run failed.
func (l *Living) Failing() int {
	n := 0
	for _, w := range l.session.workers {
		n += w.Health().Failing
	}
	return n
}

// Close ends the process.
func (l *Living) Close() { l.session.release() }
