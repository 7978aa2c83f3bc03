package handler

import (
	"cmp"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// maxEvents bounds the buffered events of one object. Further events are merged.
const maxEvents = 16

// eventBuffer has the events that were not delivered to handlers yet. They are best effort:
// standby replicas do not collect them.
type eventBuffer struct {
	mu     sync.Mutex
	active bool
	byKey  map[queue.Key][]observedEvent
}

// observedEvent is a change of an object with its type.
type observedEvent struct {
	cache.Event

	kind hook.EventType
}

// observed returns an event of a watch. A new list after an interrupted watch yields the differences
// only, so an unknown object has been added.
func observed(e cache.Event) observedEvent {
	switch {
	case e.New == nil:
		return observedEvent{e, hook.EventDeleted}
	case e.Old == nil:
		return observedEvent{e, hook.EventAdded}
	}
	return observedEvent{e, hook.EventModified}
}

func newEventBuffer() *eventBuffer { return &eventBuffer{byKey: map[queue.Key][]observedEvent{}} }

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

func (n *eventBuffer) add(key queue.Key, e observedEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.active {
		return
	}
	n.byKey[key] = appendEvent(n.byKey[key], e)
}

// take returns the events of an object and removes them.
func (n *eventBuffer) take(key queue.Key) []observedEvent {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.byKey[key]
	delete(n.byKey, key)
	return list
}

// appendEvent adds an event, once. Above the limit it merges the last two, but no deletion.
func appendEvent(list []observedEvent, e observedEvent) []observedEvent {
	if len(list) == 0 || e.New == nil {
		return append(list, e)
	}
	last := &list[len(list)-1]
	switch {
	case last.New == e.New:
	case len(list) >= maxEvents && last.New != nil:
		last.New = e.New
	default:
		return append(list, e)
	}
	return list
}

// mergeEvents merges events into one.
func mergeEvents(list []observedEvent) []observedEvent {
	if len(list) < 2 {
		return list
	}
	first := list[0]
	first.New = list[len(list)-1].New
	return []observedEvent{first}
}

// bufferEvent buffers an event if a handler needs it, or the deletion.
func (c *Controller) bufferEvent(e observedEvent) {
	end := e.New == nil && c.program.handles(hook.ReasonDelete)
	if !end && !c.program.handles(hook.ReasonEvent) {
		return
	}
	c.eventBuffer.add(controller.KeyOf(cmp.Or(e.New, e.Old)), e)
}
