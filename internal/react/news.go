package react

import (
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// maxNews bounds how many changes of one object wait to be told: what comes faster
// than it is told is told together.
const maxNews = 16

// news are the changes that handlers of events have yet to be told of. They are
// no more than that: nobody depends on them, and nobody gathers them while
// another replica works.
type news struct {
	mu     sync.Mutex
	active bool
	byKey  map[queue.Key][]store.Event
}

func newNews() *news { return &news{byKey: map[queue.Key][]store.Event{}} }

func (n *news) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = true
}

func (n *news) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = false
	clear(n.byKey)
}

// add keeps a change until it is taken.
func (n *news) add(key queue.Key, e store.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.active {
		return
	}
	list := n.byKey[key]
	if len(list) > 0 && list[len(list)-1].New == e.New && e.New != nil {
		return
	}
	if len(list) == maxNews && e.New != nil && list[maxNews-1].New != nil {
		list[maxNews-1].New = e.New
		return
	}
	n.byKey[key] = append(list, e)
}

// take returns the changes of an object, and forgets them.
func (n *news) take(key queue.Key) []store.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.byKey[key]
	delete(n.byKey, key)
	return list
}

// addNews adds a change to those that one handler has not seen: of too many, the last two
// are one.
func addNews(list []store.Event, e store.Event) []store.Event {
	if len(list) == maxNews {
		list[maxNews-1].New = e.New
		return list
	}
	return append(list, e)
}

// asOne makes one change of several.
func asOne(list []store.Event) []store.Event {
	if len(list) < 2 {
		return list
	}
	return []store.Event{{Old: list[0].Old, New: list[len(list)-1].New}}
}

// hear keeps a change where a handler is told of it, or of the end.
func (c *Controller) hear(e store.Event) {
	end := e.New == nil && c.program.told(hook.ReasonDelete)
	if !end && !c.program.told(hook.ReasonEvent) {
		return
	}
	of := e.New
	if of == nil {
		of = e.Old
	}
	c.news.add(keyOf(of), e)
}
