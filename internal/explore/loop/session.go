package loop

import (
	"context"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// session is one life of the process: it starts with a view and ends with the call that began it.
type session struct {
	// view is what the cache has. observed is how many of its writes the view has, and fresh are those since the
	// latest exchange.
	view     *View
	observed int
	fresh    []cache.Write
	cache    *cache.Manual
	workers  []worker
	observer *observer
}

// worker is a controller of the session.
type worker struct {
	*controller.Base

	run func(context.Context, Item) queue.Outcome
	// relate makes related objects known; nil if there are none.
	relate func(context.Context, queue.Key) error
	close  func()
}

var silent = slog.New(slog.DiscardHandler)

// begin starts the controllers with the view in their cache. Nothing is queued yet.
func (p *Process) begin(view *View, now time.Time) *session {
	s := p.open(view, now)
	s.drain()
	return s
}

// open is begin with what the first lists have queued.
func (p *Process) open(view *View, now time.Time) *session {
	s := &session{view: view, cache: cache.NewManual(view), observer: &observer{}}
	clock := func() time.Time { return now }
	options := queue.Options{Now: clock, Random: func() float64 { return 0 }}
	for i := range p.programs.Compose {
		s.addCompose(compose.New(p.programs.Compose[i], compose.Tools{
			Store: s.cache.Cache, Resolve: p.options.Resolve, Writer: p.writer, Observer: s.observer, Unrecorded: p.options.Unrecorded,
			Log: silent, Now: clock, Queue: options, Sequential: true,
		}), p.programs.Compose[i].Customize != nil)
	}
	for i := range p.programs.Handle {
		s.addHandle(handle.New(p.programs.Handle[i], handle.Tools{
			Store: s.cache.Cache, Writer: p.writer, Observer: s.observer, Unrecorded: p.options.Unrecorded,
			Log: silent, Now: clock, Queue: options,
		}))
	}
	s.cache.List()
	s.cache.Observe(view.Writes())
	s.observed = len(s.cache.Writes())
	return s
}

func (s *session) addCompose(c *compose.Controller, customizes bool) {
	w := worker{Base: c.Base, close: c.Close, run: func(ctx context.Context, item Item) queue.Outcome { return c.RunItem(ctx, item.Item) }}
	if customizes {
		w.relate = c.Relate
	}
	s.workers = append(s.workers, w)
}

func (s *session) addHandle(c *handle.Controller) {
	s.workers = append(s.workers, worker{Base: c.Base, close: c.Close, run: func(ctx context.Context, item Item) queue.Outcome {
		return c.RunItem(ctx, item.Item, item.events)
	}})
}

// close ends the session.
func (s *session) close() {
	for _, w := range s.workers {
		w.close()
	}
}

// drain takes everything that is queued.
func (s *session) drain() []Item {
	var items []Item
	for i, w := range s.workers {
		for w.Queue.Len() > 0 {
			item, more := w.Queue.Next(context.Background())
			if !more {
				break
			}
			w.Queue.Done(item.Key, queue.NoRequeue())
			item.Waited, item.Attempt = 0, 0
			items = append(items, Item{Item: item, Program: i})
		}
	}
	return items
}
