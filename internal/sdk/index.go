package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	reflectors "k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Index finds objects by keys. It is safe for concurrent use.
type Index[K comparable] struct {
	app      *App
	keys     func(o *object.Object) []K
	perWatch instances[reflectors.ThreadSafeStore]
}

// NewIndex returns an index of the objects that the handlers select.
func NewIndex[K comparable](of *Controller, keys func(o *object.Object) []K) *Index[K] {
	i := &Index[K]{app: of.app, keys: keys}
	of.indexes = append(of.indexes, i)
	return i
}

// indexed is an object with its keys as text.
type indexed struct {
	*object.Object

	keys []string
}

func textOf[K comparable](key K) string { return fmt.Sprintf("%#v", key) }

// Find returns the objects with a key, sorted by namespace and name.
func (i *Index[K]) Find(key K) []*object.Object {
	s := i.perWatch.first()
	if s == nil {
		return nil
	}
	found, _ := (*s).ByIndex("", textOf(key)) // The index is there.
	all := lists.Map(found, func(one any) *object.Object { return one.(indexed).Object })
	slices.SortFunc(all, func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
	})
	return all
}

// startWatch adds an index of the objects of one watch. It returns the event handler of the watch and a function
// that removes the index.
func (i *Index[K]) startWatch() (changed func(cache.Event), stop func()) {
	s := reflectors.NewThreadSafeStore(reflectors.Indexers{"": func(o any) ([]string, error) { return o.(indexed).keys, nil }},
		reflectors.Indices{})
	return func(e cache.Event) {
		switch {
		case e.New != nil:
			s.Update(e.New.Namespace()+"/"+e.New.Name(), indexed{e.New, lists.Map(i.keysOf(e.New), textOf[K])})
		case e.Old != nil: // Both are nil for an object that the kind does not select.
			s.Delete(e.Old.Namespace() + "/" + e.Old.Name())
		}
	}, i.perWatch.add(&s)
}

// keysOf returns no keys if the function panics.
func (i *Index[K]) keysOf(o *object.Object) (keys []K) {
	err := failure.Recover("the keys of an index", func() error {
		keys = i.keys(o)
		return nil
	})
	if stack, crashed := failure.PanicStack(err); crashed {
		i.app.logger().Error("index crashed", "object", o.Ref().String(), "error", failure.OneLine(err), "stack", stack)
	}
	return keys
}

// indexer is an Index of any type.
type indexer interface {
	startWatch() (changed func(cache.Event), stop func())
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
			return &hook.RetryAfterError{After: time.Second, Err: err}
		}
	}
	return nil
}

func (c *Controller) waitForIndexes(ctx context.Context) error {
	if len(c.indexes) == 0 {
		return nil
	}
	notFilled := errors.New("the index of " + c.Kind.String() + " is not filled yet")
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
