package sdk

import (
	"reflect"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/cache"
)

// memories are the values of all objects of a kind, by UID.
type memories struct {
	mu    sync.Mutex
	byUID map[string]memory
}

// memory has the values of one object, by type.
type memory map[reflect.Type]any

func (m *memories) get(uid string, typed reflect.Type, fresh func() any) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUID == nil {
		m.byUID = map[string]memory{}
	}
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
