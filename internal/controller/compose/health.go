package compose

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Health is the health of a controller at one moment.
type Health struct {
	// Synced reports whether all watches are synced.
	Synced bool
	// WatchErrors are the errors of failing watches, by resource.
	WatchErrors map[string]error
	Parents     int
	Children    int
	// Paused is how many parents are paused.
	Paused int
	// Failing is how many parents failed in their last run.
	Failing int
	// HookFailing is how many of them failed because of the hook, and HookMessage is one of their
	// errors.
	HookFailing int
	HookMessage string
	// Conflicting is how many parents have a flapping child or a hook whose responses do not
	// converge. ConflictMessage describes one of them.
	Conflicting     int
	ConflictMessage string
	// Overdue is how many hook calls run past their timeout, and OverdueMessage describes the
	// oldest. The manager sets both.
	Overdue        int
	OverdueMessage string
	// HookDown says why the process of a hook does not run, and HookUnreachable why the latest call
	// did not connect; empty otherwise. The manager sets both.
	HookDown, HookUnreachable string
	Held                      HeldDeletions
	// HeldUnknown means that deletions were held before a restart and are not known again yet.
	HeldUnknown bool
	// LastError is the latest failure. It stays after recovery; its Time is zero if there was none.
	LastError LastError
	Queue     queue.Stats
}

// LastError is a failure of a parent.
type LastError struct {
	Message string
	Object  string
	Time    time.Time
	// Locations are where writes were refused. Message may quote objects there.
	Locations []record.Location
}

// Health returns the health of the controller.
func (c *Controller) Health() Health {
	h := Health{Synced: c.Synced(), WatchErrors: map[string]error{}, Parents: c.parents.Len(), Queue: c.Queue.Stats()}
	if c.related != nil {
		for _, w := range c.related.Watches() {
			if w.Err != nil {
				h.WatchErrors[w.Selection.String()] = w.Err
			}
		}
	}
	for _, w := range c.Watches() {
		if err := w.View.Err(); err != nil {
			h.WatchErrors[w.Resource.String()] = err
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
