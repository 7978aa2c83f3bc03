package loop

import (
	"context"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// NewWriter returns a writer that sends its requests to a transport.
func NewWriter(transport http.RoundTripper) (*apply.Writer, error) {
	client, err := newClient(transport)
	return apply.New(client, apply.Options{Parallel: 1}), err
}

// DryRun is a dry run of an item. It stops at a request to the API server.
func (p *Process) DryRun(ctx context.Context, view *View, item Item) (composite.DryRunResult, error) {
	now := func() time.Time { return p.options.Now }
	s := p.begin(view, p.options.Now)
	defer s.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.transport.begin(nil, s.useExchange, stop)
	p.calls.begin(ctx)
	c := p.newComposite(s, item.Program, queue.Options{Now: now, Random: func() float64 { return 0 }})
	defer c.Close()
	return c.DryRun(ctx, item.Key, nil)
}

// Living is a process that keeps its memory between runs, and its delays. Unlike what a Process does, that is no
// function of values, so that only a walk can use it, not a search.
type Living struct{ session *session }

// NewLiving starts a process with a view. The transport handles its requests, in the goroutine of Run.
func NewLiving(programs Programs, options Options, view *View, transport http.RoundTripper) (*Living, error) {
	p, err := New(programs, options)
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
func (l *Living) Close() { l.session.close() }
