package handler

import (
	"cmp"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// memory is what the controller remembers of one object between runs. It belongs to the worker that holds the object's
// key.
type memory struct {
	controller.Memory

	trigger.States

	// writeAttempt counts failed writes of the object itself.
	writeAttempt trigger.Attempt
	// stateRemovals counts how often another client removed the record recently.
	stateRemovals trigger.Attempt
	// conditions means that responses have had conditions.
	conditions bool
	// prunedStatus are the fields of the status that the API server did not store, to be written again at prunedNext; nil
	// for none.
	prunedStatus map[string]any
	prunedNext   time.Time
	applied      appliedObjects
	revisions    revisionHistory
	// evictions has the handlers whose evictions were refused.
	evictions map[*trigger.State]evictionWait
	daemons   []*daemonState
}

// NewMemory returns an empty memory.
func (c *Controller) NewMemory() controller.Remembered { return new(memory) }

// Drop drops nothing: the memory has all.
func (c *Controller) Drop(queue.Key) {}

// Release stops the daemons.
func (m *memory) Release() {
	for _, d := range m.daemons {
		if d.running != nil {
			d.running.stop()
		}
	}
}

// Describe adds what the controller knows of an object. What waits only for a change that is being sent does not say so.
func (c *Controller) Describe(o *object.Object, state *record.ObjectState) {
	if err := c.backend.IndexError(); err != nil && c.gate.IsHeld(controller.KeyOf(o)) {
		state.Waiting = failure.OneLine(err)
	}
	state.Children = c.countOwned(o.UID(), o.Namespace())
}

// Children returns the owned objects, in the order of the kinds.
func (c *Controller) Children(o *object.Object) []record.Child {
	var children []record.Child
	for i, owned := range c.ownedBy(o) {
		for _, one := range owned {
			children = append(children, record.Child{Resource: c.program.Owns[i], Object: one})
		}
	}
	return children
}

// eventBuffer has the events that were not delivered to handlers yet. They are best effort:
// standby replicas do not collect them.
type eventBuffer struct {
	mu     sync.Mutex
	active bool
	byKey  map[queue.Key][]trigger.Event
}

func newEventBuffer() *eventBuffer { return &eventBuffer{byKey: map[queue.Key][]trigger.Event{}} }

func (n *eventBuffer) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = true
}

func (n *eventBuffer) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = false
	clear(n.byKey)
}

func (n *eventBuffer) add(key queue.Key, e trigger.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.active {
		return
	}
	n.byKey[key] = trigger.AppendEvent(n.byKey[key], e)
}

// take returns the events of an object and removes them.
func (n *eventBuffer) take(key queue.Key) []trigger.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.byKey[key]
	delete(n.byKey, key)
	return list
}

// bufferEvent buffers an event if a handler needs it, or the deletion.
func (c *Controller) bufferEvent(e trigger.Event) {
	end := e.New == nil && c.rules.Handles(hook.ReasonDelete)
	if !end && !c.rules.Handles(hook.ReasonEvent) {
		return
	}
	c.eventBuffer.add(controller.KeyOf(cmp.Or(e.New, e.Old)), e)
}
