package controller

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

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
