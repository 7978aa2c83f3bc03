package loop

import (
	"context"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
)

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
