package engine

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// decorations are what a decorator wrote last of its objects, by which it knows its own
// writes when it hears of them: they are no edits, for which a failing object would be
// tried again at once. The run that wrote them goes on about them itself. The zero value
// knows of none.
type decorations struct {
	mu    sync.Mutex
	byKey map[queue.Key]decoration
}

// decoration is an object as it was to be stored, in digests.
type decoration struct{ intent, digest uint64 }

// note notes what is about to be written: the event may be there before the response.
func (d *decorations) note(key queue.Key, written *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil {
		d.byKey = map[queue.Key]decoration{}
	}
	d.byKey[key] = decoration{intent: written.Intent(), digest: written.Digest()}
}

// made says that an object is as it was last written. Where the server counts no
// generations, the intent does not tell an edit of the rest.
func (d *decorations) made(key queue.Key, now *object.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.byKey[key]
	return known && (last.digest == now.Digest() || now.Generation() > 0 && last.intent == now.Intent())
}

// drop forgets what was written: another client has changed the object, or it is gone.
func (d *decorations) drop(key queue.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byKey, key)
}
