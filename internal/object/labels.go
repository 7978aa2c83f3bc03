package object

import (
	"cmp"
	"slices"
)

// Labels are key-value pairs sorted by key. A slice, not a map: an object has a
// handful of them and there may be a hundred thousand objects.
// It is what a labels.Selector of apimachinery matches against.
type Labels []Label

// Label is one pair.
type Label struct{ Key, Value string }

// Lookup returns the value of a key and whether it is there.
func (l Labels) Lookup(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(l, key, func(p Label, k string) int { return cmp.Compare(p.Key, k) })
	if !found {
		return "", false
	}
	return l[i].Value, true
}

// Has says whether the key is there.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of a key, or "".
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}
