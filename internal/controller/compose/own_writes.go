package compose

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// ownWrites are the last writes of a decorator to its objects. The watch returns them as events,
// which are not edits and must not retry a failing object at once. The zero value is ready.
type ownWrites struct {
	mu    sync.Mutex
	byKey map[queue.Key]ownWrite
}

// ownWrite has the digests of an object as written.
type ownWrite struct{ intent, digest uint64 }

// add remembers a write. It comes before the write, because the event may be faster than the
// response.
func (d *ownWrites) add(key queue.Key, written *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil {
		d.byKey = map[queue.Key]ownWrite{}
	}
	d.byKey[key] = ownWrite{intent: written.IntentDigest(), digest: written.Digest()}
}

// contains reports whether an object is as last written. Kinds without generations need the full
// digest: the intent does not include all their fields.
func (d *ownWrites) contains(key queue.Key, now *object.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.byKey[key]
	return known && (last.digest == now.Digest() || now.Generation() > 0 && last.intent == now.IntentDigest())
}

// drop removes the writes to an object that is deleted or was changed by another client.
func (d *ownWrites) drop(key queue.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byKey, key)
}
