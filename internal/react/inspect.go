package react

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Cares says how each handled object is doing, in no order.
func (c *Controller) Cares() []trace.Care {
	all := make([]trace.Care, 0, c.countObjects())
	for _, view := range c.objects.views {
		for o := range view.All() {
			if care, ours := c.care(o); ours {
				all = append(all, care)
			}
		}
	}
	return all
}

// Care says how one object is doing; false if it is not handled.
func (c *Controller) Care(key queue.Key) (trace.Care, bool) {
	o := c.get(key)
	if o == nil {
		return trace.Care{}, false
	}
	return c.care(o)
}

func (c *Controller) care(o *object.Object) (trace.Care, bool) {
	stance := c.program.stanceOn(o)
	if stance == indifferent {
		return trace.Care{}, false
	}
	key := keyOf(o)
	care := c.memories.care(key, o.UID())
	care.Object, care.Paused = o, stance == pausing
	pending := c.queue.Pending(key)
	// Who stands by has everything queued, and runs nothing.
	care.Idle = !c.working.Load()
	care.Waiting = !care.Idle && (pending.Queued || pending.Held || care.Ran.IsZero() && !care.Paused)
	care.Next = pending.Next
	care.Children = c.countOwned(o.UID())
	return care, true
}

// care is what is remembered of an object.
func (m *memories) care(key queue.Key, uid string) trace.Care {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known == nil || known.uid != uid {
		return trace.Care{}
	}
	care := known.shown
	if known.trouble.restless {
		care.Unrest = Restless
	}
	return care
}

// Restless is what is said of objects that do not settle.
const Restless = "handlers run again and again because the object changes; they are slowed down"

// Family are the objects that one controls, in the order of the kinds.
func (c *Controller) Family(o *object.Object) []trace.Child {
	var family []trace.Child
	for i, owned := range c.ownedBy(o) {
		for _, one := range owned {
			family = append(family, trace.Child{Resource: c.owned[i].resource, Object: one})
		}
	}
	return family
}

// Resource is the kind of its objects.
func (c *Controller) Resource() object.Resource { return c.program.Resource }
