package compose

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
	Parents     int
	Children    int
	// Paused is how many parents are left alone because a user wants it.
	Paused int
	// Failing is how many parents failed when last run.
	Failing int
	// HookFailing is how many of them failed because of the hook, and
	// HookMessage with what, in the words of one of them.
	HookFailing int
	HookMessage string
	// Conflicting is how many parents have a child that is written again and
	// again, or a hook that is never content, and Unrest one of them, in words.
	Conflicting     int
	ConflictMessage string
	// Overdue is how many calls of hooks have not returned although their timeout is
	// over, and OverdueMessage the oldest of them, in words. Who calls the hooks knows.
	Overdue        int
	OverdueMessage string
	// HookDown is why the process behind a hook is known not to run, and Unconnected why
	// the latest call of a hook got no connection; empty otherwise. Who calls the hooks
	// knows.
	HookDown, HookUnreachable string
	// Held is what the deletion guard holds.
	Held HeldDeletions
	// HeldUnknown says that deletions were held before a restart, and that it is not
	// known yet whether they are now.
	HeldUnknown bool
	// LastError is the latest failure, kept after it was overcome; its Time is
	// zero if there was none.
	LastError LastError
	Queue     queue.Stats
}

// LastError is a failure: what, of which parent, and when.
type LastError struct {
	Message string
	Object  string
	Time    time.Time
	// Locations says where writes were refused, the answers to which Message may quote.
	Locations []record.Location
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
	h.Held, h.HeldUnknown = c.deletionGuard.heldByController(c), c.deletionGuard.heldUnknown()
	c.memories.mu.Lock()
	defer c.memories.mu.Unlock()
	h.Children, h.Failing, h.HookFailing = c.memories.children, c.memories.failing, c.memories.hookFailing
	h.Paused, h.Conflicting = c.memories.paused, len(c.memories.conflicts)
	h.ConflictMessage = c.memories.firstConflict()
	if c.program.serverSelector() == "" && len(c.program.Selections) > 0 {
		h.Parents = len(c.memories.byKey)
	}
	h.LastError, h.HookMessage = c.memories.lastError, c.memories.lastHookError.Message
	return h
}
