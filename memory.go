package setpoint

import (
	"reflect"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/cache"
)

// Memory is something that the handlers of a kind remember of the object that a
// call is about, one M for each object: a new one at first, and forgotten with the
// object or at the program's end. Handlers of one object are called one after the
// other, but beside its daemons: an M that both use needs a lock.
func Memory[M, T any](c *Call[T]) *M {
	fresh := func() any { return new(M) }
	return c.handler.handlers.memories.get(c.metadata.UID, reflect.TypeFor[M](), fresh).(*M) //nolint:forcetypeassert // By its type.
}

// memories are those of all objects of a kind, by their UIDs.
type memories struct {
	mu    sync.Mutex
	byUID map[string]memory
}

// memory is what is remembered of one object, by type.
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

// onEvent forgets an object that is gone.
func (m *memories) onEvent(e cache.Event) {
	if e.Old == nil || e.New != nil && e.New.UID() == e.Old.UID() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, e.Old.UID())
}
