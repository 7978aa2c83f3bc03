package controller

import "sync"

// SharedMap is a map for several goroutines. The zero value is empty.
type SharedMap[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns the value of a key; zero if there is none.
func (m *SharedMap[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Take removes and returns the value of a key.
func (m *SharedMap[K, V]) Take(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.values[key]
	delete(m.values, key)
	return taken
}

// Edit calls a function with the map, which only that function may use.
func (m *SharedMap[K, V]) Edit(edit func(values map[K]V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	edit(m.values)
}
