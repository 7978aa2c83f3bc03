package engine

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
	Parents     int
	Children    int
	// Paused is how many parents are left alone because a user wants it.
	Paused int
	// InError is how many parents failed when last run.
	InError int
	// HookFailing is how many of them failed because of the hook, and
	// HookMessage with what, in the words of one of them.
	HookFailing int
	HookMessage string
	// Unsettled is how many parents have a child that is written again and
	// again, or a hook that is never content, and Unrest one of them, in words.
	Unsettled int
	Unrest    string
	// Overdue is how many calls of hooks have not returned although their timeout is
	// over, and OverdueMessage the oldest of them, in words. Who calls the hooks knows.
	Overdue        int
	OverdueMessage string
	// HookDown is why the process behind a hook is known not to run, and Unconnected why
	// the latest call of a hook got no connection; empty otherwise. Who calls the hooks
	// knows.
	HookDown, Unconnected string
	// Held is what the deletion guard holds.
	Held Held
	// HeldUnknown says that deletions were held before a restart, and that it is not
	// known yet whether they are now.
	HeldUnknown bool
	// Last is the latest failure, kept after it was overcome; its Time is
	// zero if there was none.
	Last  LastError
	Queue queue.Stats
}

// LastError is a failure: what, of which parent, and when.
type LastError struct {
	Message string
	Object  string
	Time    time.Time
	// Among says where writes were refused, the answers to which Message may quote.
	Among []trace.Place
}

// Health looks at the controller.
func (c *Controller) Health() Health {
	h := Health{Synced: c.synced(), WatchErrors: map[string]error{}, Parents: c.parents.Len(), Queue: c.queue.Stats()}
	if c.related != nil {
		for _, w := range c.related.Watches() {
			if w.Err != nil {
				h.WatchErrors[w.Selection.String()] = w.Err
			}
		}
	}
	for _, w := range c.watches() {
		if err := w.view.Err(); err != nil {
			h.WatchErrors[w.resource.String()] = err
		}
	}
	h.Held, h.HeldUnknown = c.deletions.heldFor(c), c.deletions.unknown()
	c.memories.mu.Lock()
	defer c.memories.mu.Unlock()
	h.Children, h.InError, h.HookFailing = c.memories.children, c.memories.failing, c.memories.ofHook
	h.Paused, h.Unsettled = c.memories.paused, len(c.memories.unrest)
	h.Unrest = c.memories.firstUnrest()
	if c.program.narrowed() == "" && len(c.program.Selections) > 0 {
		h.Parents = len(c.memories.byKey)
	}
	h.Last, h.HookMessage = c.memories.last, c.memories.hook.Message
	return h
}
