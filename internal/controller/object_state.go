package controller

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ObjectStates returns the state of every managed object, in no order. The function of
// returns what the loop knows of one.
func (b *Base) ObjectStates(of func(*object.Object) record.ObjectState) []record.ObjectState {
	all := make([]record.ObjectState, 0, b.Len())
	for o := range b.Managed() {
		all = append(all, b.withQueue(o, of(o)))
	}
	return all
}

// ObjectState is ObjectStates for one object; false if the controller does not manage it.
func (b *Base) ObjectState(key queue.Key, of func(*object.Object) record.ObjectState) (record.ObjectState, bool) {
	o := b.Get(key)
	if o == nil || !b.options.Manages(o) {
		return record.ObjectState{}, false
	}
	return b.withQueue(o, of(o)), true
}

// withQueue adds what the queue knows of an object. A standby replica has everything queued
// and runs nothing.
func (b *Base) withQueue(o *object.Object, state record.ObjectState) record.ObjectState {
	pending := b.Queue.Pending(KeyOf(o))
	state.Object = o
	state.Standby = !b.Running()
	state.Queued = !state.Standby && (pending.Queued || pending.Active || state.LastRun.IsZero() && !state.Paused)
	state.NextRun = pending.Next
	return state
}
