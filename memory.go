package setpoint

import (
	"reflect"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/cache"
)

// Memory returns a value that handlers of a kind keep in memory for the object of a call,
// one M for each object. It is new at first, and dropped when the object is deleted or
// the program stops. Setpoint calls handlers of one object one after the other, but
// concurrently with daemons: an M that both use needs a lock.
func Memory[M, T any](c *Call[T]) *M {
	fresh := func() any { return new(M) }
	return c.handler.handlers.memories.get(c.metadata.UID, reflect.TypeFor[M](), fresh).(*M) //nolint:forcetypeassert // By its type.
}

// memories are the values of all objects of a kind, by UID.
type memories struct {
	mu    sync.Mutex
	byUID map[string]memory
}

// memory has the values of one object, by type.
type memory map[reflect.Type]any

func newMemories() *memories { return &memories{byUID: map[string]memory{}} }

func (m *memories) get(uid string, typed reflect.Type, fresh func() any) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUID[uid] == nil {
		m.byUID[uid] = memory{}
	}
	one, known := m.byUID[uid][typed]
	if !known {
		one = fresh()
		m.byUID[uid][typed] = one
	}
	return one
}

// onEvent drops the values of a deleted object.
func (m *memories) onEvent(e cache.Event) {
	if e.Old == nil || e.New != nil && e.New.UID() == e.Old.UID() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, e.Old.UID())
}
