package compose

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// ownWrites are what a decorator wrote last of its objects, by which it knows its own
// writes when it hears of them: they are no edits, for which a failing object would be
// tried again at once. The run that wrote them goes on about them itself. The zero value
// knows of none.
type ownWrites struct {
	mu    sync.Mutex
	byKey map[queue.Key]ownWrite
}

// ownWrite is an object as it was to be stored, in digests.
type ownWrite struct{ intent, digest uint64 }

// add notes what is about to be written: the event may be there before the response.
func (d *ownWrites) add(key queue.Key, written *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil {
		d.byKey = map[queue.Key]ownWrite{}
	}
	d.byKey[key] = ownWrite{intent: written.IntentDigest(), digest: written.Digest()}
}

// contains says that an object is as it was last written. Where the server counts no
// generations, the intent does not tell an edit of the rest.
func (d *ownWrites) contains(key queue.Key, now *object.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.byKey[key]
	return known && (last.digest == now.Digest() || now.Generation() > 0 && last.intent == now.IntentDigest())
}

// drop forgets what was written: another client has changed the object, or it is gone.
func (d *ownWrites) drop(key queue.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byKey, key)
}
