package trace

// recent is a map that drops the oldest entries beyond a limit.
type recent[K comparable, V any] struct {
	entries map[K]V
	// order has the keys in the order they were added, from next on; it is a ring once it is full.
	order []K
	next  int
	limit int
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{entries: map[K]V{}, limit: limit}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	value, found := r.entries[key]
	return value, found
}

func (r *recent[K, V]) set(key K, value V) {
	_, known := r.entries[key]
	r.entries[key] = value
	switch {
	case known:
	case len(r.order) < r.limit:
		r.order = append(r.order, key)
	default:
		delete(r.entries, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % r.limit
	}
}
