package loop

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Start returns what a process queues that has just listed all objects.
func (p *Process) Start(view *View) []Item {
	p.calls.begin(context.Background())
	s := p.open(view, fixedTime)
	defer s.close()
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
	defer s.close()
	s.relateAll(ctx)
	s.deliver(e)
	items := s.drain()
	for i := range items {
		p.addEvent(&items[i], view, e)
	}
	return items
}

// Observe returns what the process queues when one of its runs puts the result of a write into the cache: others may
// watch the object, or have had a former one of the name.
func (p *Process) Observe(ctx context.Context, view *View, write cache.Write) []Item {
	p.calls.begin(ctx)
	s := p.begin(view)
	defer s.close()
	s.relateAll(ctx)
	s.cache.Observe(write)
	return s.drain()
}

// relateAll makes the related objects of all parents known. Parents whose customize hook fails have none.
func (s *session) relateAll(ctx context.Context) {
	for _, w := range s.workers {
		if w.relate == nil {
			continue
		}
		for _, o := range w.Objects() {
			_ = w.relate(ctx, controller.KeyOf(o))
		}
	}
	s.drain()
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

// Retry returns the item of a run that is to be repeated, by its outcome or by a delay that it chose.
func (i Item) Retry(kind queue.CauseKind) Item {
	return Item{Item: queue.Item{Key: i.Key, Causes: queue.NewCauses(queue.Cause{Kind: kind})}, Program: i.Program}
}
