package handle

import (
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// maxEvents bounds how many changes of one object wait to be told: what comes faster
// than it is told is told together.
const maxEvents = 16

// eventBuffer are the changes that handlers of events have yet to be told of. They are
// no more than that: nobody depends on them, and nobody gathers them while
// another replica works.
type eventBuffer struct {
	mu     sync.Mutex
	active bool
	byKey  map[queue.Key][]cache.Event
}

func newEventBuffer() *eventBuffer { return &eventBuffer{byKey: map[queue.Key][]cache.Event{}} }

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

// add keeps a change until it is taken.
func (n *eventBuffer) add(key queue.Key, e cache.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.active {
		return
	}
	list := n.byKey[key]
	if len(list) > 0 && list[len(list)-1].New == e.New && e.New != nil {
		return
	}
	if len(list) == maxEvents && e.New != nil && list[maxEvents-1].New != nil {
		list[maxEvents-1].New = e.New
		return
	}
	n.byKey[key] = append(list, e)
}

// take returns the changes of an object, and forgets them.
func (n *eventBuffer) take(key queue.Key) []cache.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.byKey[key]
	delete(n.byKey, key)
	return list
}

// appendEvent adds a change to those that one handler has not seen: of too many, the last two
// are one.
func appendEvent(list []cache.Event, e cache.Event) []cache.Event {
	if len(list) == maxEvents {
		list[maxEvents-1].New = e.New
		return list
	}
	return append(list, e)
}

// mergeEvents makes one change of several.
func mergeEvents(list []cache.Event) []cache.Event {
	if len(list) < 2 {
		return list
	}
	return []cache.Event{{Old: list[0].Old, New: list[len(list)-1].New}}
}

// bufferEvent keeps a change where a handler is told of it, or of the end.
func (c *Controller) bufferEvent(e cache.Event) {
	end := e.New == nil && c.program.handles(hook.ReasonDelete)
	if !end && !c.program.handles(hook.ReasonEvent) {
		return
	}
	of := e.New
	if of == nil {
		of = e.Old
	}
	c.eventBuffer.add(controller.KeyOf(of), e)
}
