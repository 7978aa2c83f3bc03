package react

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Health is how a controller is doing, at one moment.
type Health struct {
	// Synced says that all its watches have delivered what is there.
	Synced bool
	// WatchErrors are the watches that do not work at present, by resource.
	WatchErrors map[string]error
	// Objects is how many are handled, Owned how many they own.
	Objects, Owned int
	// Paused is how many objects are left alone because a user wants it.
	Paused int
	// InError is how many objects failed when last run.
	InError int
	// HandlerFailing is how many of them failed because of a handler, and
	// HandlerMessage with what, in the words of one of them.
	HandlerFailing int
	HandlerMessage string
	// Unsettled is how many objects have handlers that are told of each other's
	// changes again and again.
	Unsettled int
	// Last is the latest failure, kept after it was overcome; its Time is zero if
	// there was none.
	Last  LastError
	Queue queue.Stats
}

// LastError is a failure: what, of which object, and when.
type LastError struct {
	Message string
	Object  string
	Time    time.Time
	// Among says where writes were refused, the answers to which Message may quote.
	Among []trace.Place
}

// Health looks at the controller.
func (c *Controller) Health() Health {
	h := Health{Synced: c.synced(), WatchErrors: map[string]error{}, Objects: c.countObjects(), Queue: c.queue.Stats()}
	for _, w := range c.watches() {
		if err := w.view.Err(); err != nil {
			h.WatchErrors[w.resource.String()] = err
		}
	}
	for _, uid := range c.memories.uids() {
		h.Owned += c.countOwned(uid)
	}
	c.memories.mu.Lock()
	defer c.memories.mu.Unlock()
	if c.program.Matches != nil {
		h.Objects = len(c.memories.byKey)
	}
	h.Paused, h.InError = c.memories.paused, c.memories.failing
	h.HandlerFailing, h.Unsettled = c.memories.ofHandler, c.memories.restless
	h.Last, h.HandlerMessage = c.memories.last, c.memories.handler.Message
	return h
}
