package handle

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ObjectStates says how each handled object is doing, in no order.
func (c *Controller) ObjectStates() []record.ObjectState {
	all := make([]record.ObjectState, 0, c.countObjects())
	for _, view := range c.objects.views {
		for o := range view.All() {
			if state, ours := c.objectState(o); ours {
				all = append(all, state)
			}
		}
	}
	return all
}

// ObjectState says how one object is doing; false if it is not handled.
func (c *Controller) ObjectState(key queue.Key) (record.ObjectState, bool) {
	o := c.get(key)
	if o == nil {
		return record.ObjectState{}, false
	}
	return c.objectState(o)
}

func (c *Controller) objectState(o *object.Object) (record.ObjectState, bool) {
	phase := c.program.phaseOf(o)
	if phase == phaseIgnored {
		return record.ObjectState{}, false
	}
	key := keyOf(o)
	state := c.memories.objectState(key, o.UID())
	state.Object, state.Paused = o, phase == phasePaused
	pending := c.queue.Pending(key)
	// Who stands by has everything queued, and runs nothing.
	state.Standby = !c.running.Load()
	state.Queued = !state.Standby && (pending.Queued || pending.Active || state.LastRun.IsZero() && !state.Paused)
	state.NextRun = pending.Next
	state.Children = c.countOwned(o.UID())
	return state, true
}

// objectState is what is remembered of an object.
func (m *memories) objectState(key queue.Key, uid string) record.ObjectState {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known == nil || known.uid != uid {
		return record.ObjectState{}
	}
	state := known.state
	if known.result.conflicting {
		state.Conflict = ConflictMessage
	}
	return state
}

// ConflictMessage is what is said of objects that do not settle.
const ConflictMessage = "handlers run again and again because the object changes; they are slowed down"

// Children are the objects that one controls, in the order of the kinds.
func (c *Controller) Children(o *object.Object) []record.Child {
	var children []record.Child
	for i, owned := range c.ownedBy(o) {
		for _, one := range owned {
			children = append(children, record.Child{Resource: c.owned[i].resource, Object: one})
		}
	}
	return children
}

// Resource is the kind of its objects.
func (c *Controller) Resource() object.Resource { return c.program.Resource }
