package world

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// setpoint is a process of Setpoint.
type setpoint struct {
	ctx     context.Context //nolint:containedctx // A search ends with it, and its steps have no other.
	process *loop.Process
	// names and parents are those of the programs, and the kinds that they reconcile.
	names      []string
	parents    []object.Resource
	resourceOf func(object.GroupKind) (object.Resource, bool)
}

// Setpoint returns a process of Setpoint with controllers. A server knows the resources of the kinds.
func Setpoint(ctx context.Context, programs loop.Programs, options loop.Options,
	resourceOf func(object.GroupKind) (object.Resource, bool)) Controller {
	var names []string
	var parents []object.Resource
	for i := range programs.Compose {
		names, parents = append(names, programs.Compose[i].Name), append(parents, programs.Compose[i].Parent)
	}
	for i := range programs.Handle {
		names, parents = append(names, programs.Handle[i].Name), append(parents, programs.Handle[i].Resource)
	}
	return Controller{Name: "setpoint", Start: func() (Process, error) {
		p, err := loop.NewProcess(programs, options)
		if err != nil {
			return nil, err
		}
		return &setpoint{ctx: ctx, process: p, names: names, parents: parents, resourceOf: resourceOf}, nil
	}}
}

// writer is the view of a cache that has observed a write.
type writer struct {
	selection cache.Selection
	view      int
}

// Omissions says what is not explored, for the report.
func (s *setpoint) Omissions() []string { return s.process.Omissions() }

// Watches implements Process.
func (s *setpoint) Watches(o *object.Object) bool {
	resource, known := s.resourceOf(o.GroupKind())
	return known && s.process.Watches(resource)
}

func (s *setpoint) view(cached []*object.Object) *loop.View {
	return loop.NewView(cached, s.resourceOf)
}

// Start implements Process.
func (s *setpoint) Start(cached []*object.Object) []Item {
	return s.items(s.process.Start(s.view(cached)))
}

// Deliver implements Process.
func (s *setpoint) Deliver(seen []*object.Object, own []Event, event Event) []Item {
	resource, _ := s.resourceOf(event.Object.GroupKind())
	return s.items(s.process.Deliver(s.ctx, s.viewWith(seen, own), loop.Event{Resource: resource, Object: event.Object,
		Deleted: event.Deleted}))
}

// Observe implements Process.
func (s *setpoint) Observe(seen []*object.Object, own []Event, wrote Event) []Item {
	return s.items(s.process.Observe(s.ctx, s.viewWith(seen, own), writeOf(wrote)))
}

// viewWith returns a view with own writes whose events are still to come.
func (s *setpoint) viewWith(seen []*object.Object, own []Event) *loop.View {
	return s.view(seen).Observe(lists.Map(own, writeOf)...)
}

func writeOf(e Event) cache.Write {
	by := e.Writer.(writer)
	return cache.Write{Selection: by.selection, View: by.view, Object: e.Object, Deleted: e.Deleted}
}

// Reads implements Reader.
func (s *setpoint) Reads(item Item, o *object.Object) bool {
	return s.process.MayRead(item.Value.(loop.Item), o)
}

// Merge implements Process.
func (s *setpoint) Merge(older, newer Item) Item {
	return s.item(older.Value.(loop.Item).Merge(newer.Value.(loop.Item)))
}

func (s *setpoint) items(raw []loop.Item) []Item { return lists.Map(raw, s.item) }

func (s *setpoint) item(raw loop.Item) Item {
	bare := loop.Item{Item: queue.Item{Key: raw.Key, Causes: raw.Causes}, Program: raw.Program}
	ref := s.parents[raw.Program].Ref(raw.Key.Namespace, raw.Key.Name).Identity()
	return Item{Controller: s.names[raw.Program], Key: raw.Key, Object: ref, Digest: raw.Digest(), Refers: raw.Digest() != bare.Digest(),
		Value: raw}
}

// Step implements Process.
func (s *setpoint) Step(run Run) Step {
	item := run.Item.Value.(loop.Item)
	raw := s.process.Step(s.ctx, loop.Run{Item: item, View: s.view(run.Cached), Exchanges: run.Exchanges})
	step := Step{Request: raw.Request, Queued: s.items(raw.Queued), Err: raw.Err}
	for _, w := range raw.Writes {
		step.Wrote = append(step.Wrote, Event{Object: w.Object, Deleted: w.Deleted, Writer: writer{w.Selection, w.View}})
	}
	if raw.End != nil {
		step.End = &End{Err: raw.End.Err, Panicked: raw.End.Panicked, Again: s.again(item, raw.End)}
	}
	return step
}

// again returns the next run of an item that its end plans; nil if it plans none.
func (s *setpoint) again(item loop.Item, end *loop.End) *Item {
	kind := end.Requeue.Cause.Kind
	switch {
	case end.Outcome != queue.NoRequeue() && end.Err != nil:
		kind = queue.Retrying
	case end.Outcome != queue.NoRequeue():
		kind = queue.RequeueAfter
	case end.Requeue.After == 0:
		return nil
	}
	next := s.item(item.Retry(kind))
	next.Failed = end.Err != nil
	return &next
}
