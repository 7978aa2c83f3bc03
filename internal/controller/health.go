package controller

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Health is the state of a controller at one moment.
type Health struct {
	// Synced means that all watches have delivered what exists.
	Synced bool
	// WatchErrors are the watches that do not work at present, by resource and namespace.
	WatchErrors map[string]error
	// Parents counts the managed objects, Children the objects that they own.
	Parents, Children int
	// Paused counts the objects that a user has paused.
	Paused int
	// Failing counts the objects whose latest run failed.
	Failing int
	// HookFailing counts those that failed because of the hook or of a handler.
	// HookMessage is the error of one of them.
	HookFailing int
	HookMessage string
	// Forbidden counts those that failed because the API server forbids what the controller does: permissions, quotas
	// or policies. ForbiddenMessage is the error of one of them, ForbiddenNamespaces are those of all, sorted.
	Forbidden           int
	ForbiddenMessage    string
	ForbiddenNamespaces []string
	// RelatedMissing counts those that failed because related objects cannot be read. RelatedMessage is the error of
	// one of them.
	RelatedMissing int
	RelatedMessage string
	// Invalid counts the objects that are no valid parents. InvalidMessage is the error of one of them.
	Invalid        int
	InvalidMessage string
	// Conflicting counts the objects that do not converge. ConflictMessage is about one of them.
	Conflicting     int
	ConflictMessage string
	// Overdue counts the calls of hooks that have not returned after their timeout.
	// OverdueMessage is about the oldest. Callers of the hooks set both.
	Overdue        int
	OverdueMessage string
	// HookDown is why the process behind a hook does not run, HookUnreachable why the
	// latest call of a hook got no connection. Callers of the hooks set both.
	HookDown, HookUnreachable string
	// IndexMessage is why objects wait for an index, StreamMessage why there are no
	// notifications; empty if that is not so.
	IndexMessage, StreamMessage string
	// Held is what the deletion guard holds.
	Held HeldDeletions
	// HeldUnknown means that deletions were held before a restart and that the controller
	// does not know yet whether they still are.
	HeldUnknown bool
	// LastError is the latest failure, also when it is over; its Time is zero if there was none.
	LastError LastError
	Queue     queue.Stats
}

// HeldDeletions counts held deletions.
type HeldDeletions struct {
	// Count is the number of deletions, Parents the number of parents they belong to.
	Count, Parents int
	// Value confirms all of them, and those of the controller's other programs.
	Value string
}

// Line returns the message, with the object if it is known.
func (e *LastError) Line() string {
	if e.Object == "" {
		return e.Message
	}
	return e.Object + ": " + e.Message
}

// Health returns what the watches, the queue and the memories know; a loop adds the rest.
func (b *Base) Health() Health {
	h := Health{Synced: b.Synced(), WatchErrors: map[string]error{}, Parents: b.Len(), Queue: b.Queue.Stats()}
	for _, w := range b.watches {
		if err := w.View.Err(); err != nil {
			h.WatchErrors[w.String()] = err
		}
	}
	b.Memories.addTo(&h)
	return h
}

// ObjectStates returns the state of every managed object, in no order.
func (b *Base) ObjectStates() []record.ObjectState {
	all := make([]record.ObjectState, 0, b.Len())
	for o := range b.Managed() {
		all = append(all, b.objectState(o))
	}
	return all
}

// ObjectState is ObjectStates for one object; false if the controller does not manage it.
func (b *Base) ObjectState(key queue.Key) (record.ObjectState, bool) {
	o := b.Get(key)
	if o == nil || !b.manages(o) {
		return record.ObjectState{}, false
	}
	return b.objectState(o), true
}

// objectState returns what the memory, the loop and the queue know of an object. A standby
// replica has everything queued and runs nothing.
func (b *Base) objectState(o *object.Object) record.ObjectState {
	state := b.Memories.objectState(KeyOf(o), o.UID())
	state.Object, state.Paused = o, b.loop.PhaseOf(o) == PhasePaused
	b.loop.Describe(o, &state)
	pending := b.Queue.Pending(KeyOf(o))
	state.Standby = !b.Running()
	state.Queued = !state.Standby && (pending.Queued || pending.Active || state.Waiting != "" || state.LastRun.IsZero() && !state.Paused)
	state.NextRun = pending.Next
	return state
}

func (m *Memories) objectState(key queue.Key, uid string) record.ObjectState {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known == nil || known.common().uid != uid {
		return record.ObjectState{}
	}
	c := known.common()
	state := record.ObjectState{LastRun: c.lastRun, ReconciledAt: c.reconcileAt, Children: c.Result.Children,
		Conflict: c.conflict.Message, Locations: c.conflict.Locations}
	if r := c.Result; r.Failing {
		state.Failing, state.Error, state.Attempts = true, r.Message, c.Attempts
		state.Fault, state.Reason, state.Since = r.Fault, r.Reason, r.Since
		state.Locations = record.AddLocations(slices.Clone(state.Locations), r.Locations...)
	}
	return state
}

// group counts the objects of one kind of trouble.
type group struct {
	count   *int
	message *string
	first   string
}

// add adds an object. The message is that of the first by name: a condition must not flap.
func (g *group) add(key queue.Key, message string) {
	if name := key.String(); *g.count == 0 || name < g.first {
		g.first, *g.message = name, message
	}
	*g.count++
}

func (m *Memories) addTo(h *Health) {
	m.mu.Lock()
	defer m.mu.Unlock()
	forbidden, relatedMissing := group{&h.Forbidden, &h.ForbiddenMessage, ""}, group{&h.RelatedMissing, &h.RelatedMessage, ""}
	invalid, conflicting := group{&h.Invalid, &h.InvalidMessage, ""}, group{&h.Conflicting, &h.ConflictMessage, ""}
	namespaces := map[string]bool{}
	for key, known := range m.byKey {
		c := known.common()
		h.Children += c.Result.Children
		h.Paused += boolToInt(c.paused)
		h.Failing += boolToInt(c.Result.Failing)
		if c.Result.forbidden() {
			forbidden.add(key, c.Result.Message)
			namespaces[key.Namespace] = true
		}
		if c.Result.RelatedMissing {
			relatedMissing.add(key, c.Result.Message)
		}
		if c.Result.Invalid {
			invalid.add(key, c.Result.Message)
		}
		if c.conflict.Message != "" {
			conflicting.add(key, c.conflict.Message)
		}
	}
	delete(namespaces, "")
	h.ForbiddenNamespaces = slices.Sorted(maps.Keys(namespaces))
	h.HookFailing, h.HookMessage, h.LastError = m.hookFailing, m.lastHookError.Message, m.lastError
}
