package explore

import (
	"encoding/binary"
	"sync"
)

// table stores equal values once, and numbers them. A state is then a few numbers, and what is computed of a value
// is computed once. It is safe for concurrent use.
type table[T any] struct {
	mu     sync.RWMutex
	ids    map[string]uint32
	values []*T
}

// add returns the value of a key. build makes it, once, with its number.
func (t *table[T]) add(key []byte, build func(id uint32) *T) *T {
	t.mu.RLock()
	id, found := t.ids[string(key)]
	if found {
		value := t.values[id]
		t.mu.RUnlock()
		return value
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, found = t.ids[string(key)]; found {
		return t.values[id]
	}
	if t.ids == nil {
		t.ids = map[string]uint32{}
	}
	id = uint32(len(t.values))
	value := build(id)
	t.ids[string(key)] = id
	t.values = append(t.values, value)
	return value
}

// at returns the value of a number.
func (t *table[T]) at(id uint32) *T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.values[id]
}

// key builds keys of tables.
type key []byte

func (k key) number(n uint32) key { return binary.LittleEndian.AppendUint32(k, n) }

func (k key) long(n uint64) key { return binary.LittleEndian.AppendUint64(k, n) }

// text appends a text with its length, so that two texts in a row are not taken for two others.
func (k key) text(s string) key { return append(k.number(uint32(len(s))), s...) }
