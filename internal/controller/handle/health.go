package handle

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
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
	// Failing is how many objects failed when last run.
	Failing int
	// HandlerFailing is how many of them failed because of a handler, and
	// HandlerMessage with what, in the words of one of them.
	HandlerFailing int
	HandlerMessage string
	// Conflicting is how many objects have handlers that are told of each other's
	// changes again and again.
	Conflicting int
	// LastError is the latest failure, kept after it was overcome; its Time is zero if
	// there was none.
	LastError LastError
	Queue     queue.Stats
}

// LastError is a failure: what, of which object, and when.
type LastError struct {
	Message string
	Object  string
	Time    time.Time
	// Locations says where writes were refused, the answers to which Message may quote.
	Locations []record.Location
}

// Health looks at the controller.
func (c *Controller) Health() Health {
	h := Health{Synced: c.Synced(), WatchErrors: map[string]error{}, Objects: c.Len(), Queue: c.Queue.Stats()}
	for _, w := range c.Watches() {
		if err := w.View.Err(); err != nil {
			h.WatchErrors[w.Resource.String()] = err
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
	h.Paused, h.Failing = c.memories.paused, c.memories.failing
	h.HandlerFailing, h.Conflicting = c.memories.handlerFailing, c.memories.conflicting
	h.LastError, h.HandlerMessage = c.memories.lastError, c.memories.lastHandlerError.Message
	return h
}
