package setpoint

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// indexer is an Index of any type.
type indexer interface {
	startWatch() (changed func(cache.Event), stop func())
}

// startWatches fills the indexes and drops memories by the watches of a program. It
// returns a function that stops both.
func (h *Handlers[T]) startWatches(from *cache.Cache, p *loop.Program) (end func(), err error) {
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
	views := &[]*cache.View{}
	for _, selection := range p.Selections() {
		view := from.Watch(selection, changed)
		*views, ends = append(*views, view), append(ends, view.Close)
	}
	remove := h.c.watches.add(views)
	return func() {
		remove()
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

// instances are what the watches of a kind fill: one, or two while a controller restarts,
// of which the first one counts.
type instances[T any] struct {
	mu  sync.Mutex
	all []*T
}

func (i *instances[T]) add(one *T) (remove func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, one)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.all = slices.DeleteFunc(i.all, func(other *T) bool { return other == one })
	}
}

// first returns nil if there is none.
func (i *instances[T]) first() *T {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.all) == 0 {
		return nil
	}
	return i.all[0]
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
	views := c.watches.first()
	if views == nil {
		return notFilled
	}
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	for _, view := range *views {
		select {
		case <-view.Ready():
		case <-ctx.Done():
			return notFilled
		}
	}
	return nil
}
