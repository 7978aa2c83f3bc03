package setpoint

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// indexer is an Index of any type.
type indexer interface {
	startWatch() (changed func(cache.Event), stop func())
}

// startWatches fills the indexes and drops memories by the watches of a program. It
// returns a function that stops both.
func (h *Handlers[T]) startWatches(from *cache.Cache, p *handle.Program) (end func(), err error) {
	selector, err := labels.Parse(p.Labels)
	if err != nil {
		return nil, err
	}
	callbacks := []func(cache.Event){h.memories.onEvent}
	var ends []func()
	for _, index := range h.c.indexes {
		changed, stop := index.startWatch()
		callbacks, ends = append(callbacks, changed), append(ends, stop)
	}
	changed := func(e cache.Event) {
		e.Old, e.New = matching(e.Old, selector), matching(e.New, selector)
		for _, callback := range callbacks {
			callback(e)
		}
	}
	w := &watchedViews{}
	for _, selection := range p.Selections() {
		view := from.Watch(selection, changed)
		w.views, ends = append(w.views, view), append(ends, view.Close)
	}
	h.c.watches.add(w)
	return func() {
		h.c.watches.remove(w)
		for _, end := range ends {
			end()
		}
	}, nil
}

// matching returns an object that matches a selector, or nil.
func matching(o *object.Object, selector labels.Selector) *object.Object {
	if o == nil || !selector.Matches(o.Labels()) {
		return nil
	}
	return o
}

// watches fill the indexes of a kind. There are two while a controller restarts; the
// first one counts.
type watches struct {
	mu  sync.Mutex
	all []*watchedViews
}

// watchedViews are the views of one program.
type watchedViews struct{ views []*cache.View }

func (w *watches) add(one *watchedViews) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, one)
}

func (w *watches) remove(one *watchedViews) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(other *watchedViews) bool { return other == one })
}

// current returns the views of the first program, or nil.
func (w *watches) current() []*cache.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return nil
	}
	return w.all[0].views
}

// indexTimeout is how long a call waits until the indexes are filled.
const indexTimeout = 5 * time.Second

// waitForIndexes waits until the indexes of all kinds are filled. Its error is retried.
func (a *App) waitForIndexes(ctx context.Context) error {
	if !a.running {
		return nil // Called by hand, by a test.
	}
	for _, c := range a.controllers {
		if err := c.waitForIndexes(ctx); err != nil {
			return RetryAfter(time.Second, err)
		}
	}
	return nil
}

func (c *controller) waitForIndexes(ctx context.Context) error {
	if len(c.indexes) == 0 {
		return nil
	}
	notFilled := errors.New("the index of " + c.kind.String() + " is not filled yet")
	views := c.watches.current()
	if views == nil {
		return notFilled
	}
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	for _, view := range views {
		select {
		case <-view.Ready():
		case <-ctx.Done():
			return notFilled
		}
	}
	return nil
}
