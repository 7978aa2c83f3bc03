package cache

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	reflectors "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// What stands between a watch and client-go's Reflector, which knows how to
// follow a collection: when to list, where to resume, how long to wait.

// listItem is an object in the form the reflector passes it on: all it asks of one
// is its name and version.
type listItem struct{ *object.Object }

// GetObjectKind is asked by nobody here.
func (i listItem) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the item itself: objects are immutable.
func (i listItem) DeepCopyObject() runtime.Object { return i }

// GetObjectMeta returns what the reflector asks for.
func (i listItem) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.Name(), ResourceVersion: i.ResourceVersion()}
}

// reflectorStore is the store the reflector fills.
type reflectorStore struct{ watch *watch }

var (
	_ reflectors.ReflectorStore         = reflectorStore{}
	_ reflectors.ReflectorBookmarkStore = reflectorStore{}
)

// Add takes an ADDED event.
func (s reflectorStore) Add(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverUpdated(obj.(listItem).Object) })
	return nil
}

// Update takes a MODIFIED event.
func (s reflectorStore) Update(obj any) error { return s.Add(obj) }

// Delete takes a DELETED event.
func (s reflectorStore) Delete(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverDeleted(obj.(listItem).Object) })
	return nil
}

// Bookmark takes a BOOKMARK event.
func (s reflectorStore) Bookmark(resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err == nil {
		s.watch.apply(func(c *watchCache) []notification { c.advance(version); return nil })
	}
	return err
}

// Replace takes a complete list.
func (s reflectorStore) Replace(items []any, resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err != nil {
		return err
	}
	list := make([]*object.Object, len(items))
	for i := range items {
		list[i] = items[i].(listItem).Object
	}
	s.watch.replace(list, version)
	return nil
}

// Resync has nothing to do: resyncs belong to the queue.
func (s reflectorStore) Resync() error { return nil }

func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is no integer", text)
	}
	return version, nil
}

// reflectorClock is the real clock, but it waits as long as the link says, and no
// waiting outlives the halt. The reflector waits between attempts alone, and does not
// look at its context when a watch is refused.
type reflectorClock struct {
	clock.RealClock
	ctx        context.Context //nolint:containedctx // The interface of clocks passes none.
	connection *connection
}

// After returns a channel that gets the time when it is time for the next attempt, or at
// the halt.
func (c reflectorClock) After(time.Duration) <-chan time.Time {
	passed := make(chan time.Time, 1)
	waiting, cancel := context.WithTimeout(c.ctx, c.connection.nextDelay())
	context.AfterFunc(waiting, func() {
		cancel()
		passed <- time.Now()
	})
	return passed
}
