package setpoint

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// indexer is an Index, whatever is in it.
type indexer interface {
	open() (changed func(store.Event), closed func())
}

// observe has memories forget what is gone, and indexes filled, by the watches of
// a program, which are shared with it. It returns what ends that.
func (h *Handlers[T]) observe(from *store.Store, p *react.Program) (end func(), err error) {
	selector, err := labels.Parse(p.Labels)
	if err != nil {
		return nil, err
	}
	told := []func(store.Event){h.memories.changed}
	var ends []func()
	for _, index := range h.indexes {
		changed, closed := index.open()
		told, ends = append(told, changed), append(ends, closed)
	}
	changed := func(e store.Event) {
		e.Old, e.New = selected(e.Old, selector), selected(e.New, selector)
		for _, tell := range told {
			tell(e)
		}
	}
	w := &watched{}
	for _, selection := range p.Selections() {
		view := from.Watch(selection, changed)
		w.views, ends = append(w.views, view), append(ends, view.Close)
	}
	h.watches.add(w)
	return func() {
		h.watches.remove(w)
		for _, end := range ends {
			end()
		}
	}, nil
}

// selected is an object that matches a selector; nil for any other.
func selected(o *object.Object, selector labels.Selector) *object.Object {
	if o == nil || !selector.Matches(o.Labels()) {
		return nil
	}
	return o
}

// watches are the watches of a kind that fill its indexes. There is more than one
// while its controller is made anew; the first counts.
type watches struct {
	mu  sync.Mutex
	all []*watched
}

// watched are the views of one program.
type watched struct{ views []*store.View }

func (w *watches) add(one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, one)
}

func (w *watches) remove(one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(other *watched) bool { return other == one })
}

// views are those that count; none before there are any.
func (w *watches) views() []*store.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return nil
	}
	return w.all[0].views
}

// patience is how long a call waits for indexes to be filled.
const patience = 5 * time.Second

// filled waits until the indexes of all kinds are. An error has the handler told
// again.
func (a *App) filled(ctx context.Context) error {
	if !a.running {
		return nil // Called by hand, by a test.
	}
	for _, p := range a.parts {
		if err := p.filled(ctx); err != nil {
			return RetryAfter(time.Second, err)
		}
	}
	return nil
}

func (h *Handlers[T]) filled(ctx context.Context) error {
	if len(h.indexes) == 0 {
		return nil
	}
	views := h.watches.views()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, view := range views {
		select {
		case <-view.Ready():
		case <-ctx.Done():
			return errors.New("the index of " + h.c.kind.String() + " is not filled yet")
		}
	}
	if views == nil {
		return errors.New("the index of " + h.c.kind.String() + " is not begun yet")
	}
	return nil
}
