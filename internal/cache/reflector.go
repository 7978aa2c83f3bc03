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

// Adapters between a watch and client-go's Reflector, which knows when to list, where to
// resume and how long to wait.

// listItem is an object for the reflector, which needs only its name and version.
type listItem struct{ *object.Object }

// GetObjectKind is not used.
func (i listItem) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the item itself, since objects are immutable.
func (i listItem) DeepCopyObject() runtime.Object { return i }

// GetObjectMeta returns the metadata that the reflector needs.
func (i listItem) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.Name(), ResourceVersion: i.ResourceVersion()}
}

// reflectorStore is the store that the reflector fills.
type reflectorStore struct{ watch *watch }

var (
	_ reflectors.ReflectorStore         = reflectorStore{}
	_ reflectors.ReflectorBookmarkStore = reflectorStore{}
)

// Add handles an ADDED event.
func (s reflectorStore) Add(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverUpdated(obj.(listItem).Object) })
	return nil
}

// Update handles a MODIFIED event.
func (s reflectorStore) Update(obj any) error { return s.Add(obj) }

// Delete handles a DELETED event.
func (s reflectorStore) Delete(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverDeleted(obj.(listItem).Object) })
	return nil
}

// Bookmark handles a BOOKMARK event.
func (s reflectorStore) Bookmark(resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err == nil {
		s.watch.apply(func(c *watchCache) []notification { c.advance(version); return nil })
	}
	return err
}

// Replace handles a complete list.
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

// Resync does nothing: resyncs are those of the queue.
func (s reflectorStore) Resync() error { return nil }

func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is no integer", text)
	}
	return version, nil
}

// reflectorClock is the real clock, except that it waits for the delay of the connection, or
// until ctx ends. The reflector waits only between attempts, and ignores its context when a
// watch is refused.
type reflectorClock struct {
	clock.RealClock
	ctx        context.Context //nolint:containedctx // The interface of clocks passes no context.
	connection *connection
}

// After returns a channel that receives when the next attempt is due, or when ctx ends.
func (c reflectorClock) After(time.Duration) <-chan time.Time {
	passed := make(chan time.Time, 1)
	waiting, cancel := context.WithTimeout(c.ctx, c.connection.nextDelay())
	context.AfterFunc(waiting, func() {
		cancel()
		passed <- time.Now()
	})
	return passed
}
