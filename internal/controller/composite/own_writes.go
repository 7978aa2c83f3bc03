package composite

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// ownWrite has the digests of an object as a decorator last wrote it. The watch returns its writes
// as events, which are not edits and must not retry a failing object at once.
type ownWrite struct{ intent, digest uint64 }

// noteOwnWrite remembers a write. It comes before the write, because the event may be faster than
// the response.
func (c *Controller) noteOwnWrite(key queue.Key, written *object.Object) {
	c.ownWrites.Edit(func(last map[queue.Key]ownWrite) { last[key] = ownWrite{written.IntentDigest(), written.Digest()} })
}

// isOwnWrite reports whether an object is as last written. Kinds without generations need the full
// digest: the intent does not include all their fields.
func (c *Controller) isOwnWrite(now *object.Object) bool {
	last := c.ownWrites.Get(controller.KeyOf(now))
	return last.digest == now.Digest() || now.Generation() > 0 && last.intent == now.IntentDigest()
}
