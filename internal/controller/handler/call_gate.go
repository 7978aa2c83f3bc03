package handler

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// callGate holds back the reconciles of objects until the indexes of the process are complete
// and have the latest change of the object.
type callGate struct {
	controller *Controller

	mu sync.Mutex
	// unsent counts the changes that are not in the index yet. waiting are the causes of the
	// reconciles that are held back.
	unsent  map[queue.Key]int
	waiting map[queue.Key]queue.Causes
}

func newCallGate(c *Controller) *callGate {
	return &callGate{controller: c, unsent: map[queue.Key]int{}, waiting: map[queue.Key]queue.Causes{}}
}

// holds reports whether a reconcile has to wait. It is queued again when it may go on. Objects
// that the controller only releases do not wait.
func (g *callGate) holds(item queue.Item) bool {
	if g == nil {
		return false
	}
	if o := g.controller.Get(item.Key); o != nil && g.controller.PhaseOf(o) != controller.PhaseManaged {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.controller.backend.MayCall() && g.unsent[item.Key] == 0 {
		return false
	}
	causes := queue.NewCauses(g.waiting[item.Key].List()...)
	causes.Merge(item.Causes)
	g.waiting[item.Key] = causes
	return true
}

// isOpen reports whether calls about an object may be made.
func (g *callGate) isOpen(key queue.Key) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsent[key] == 0
}

// close records a change that is not in the index yet.
func (g *callGate) close(key queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsent[key]++
}

// open records that changes are in the index, and queues what waited for them.
func (g *callGate) open(keys []queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.unsent[key]--
		if g.unsent[key] > 0 {
			continue
		}
		delete(g.unsent, key)
		if causes, waits := g.waiting[key]; waits {
			delete(g.waiting, key)
			g.queue(key, causes)
		}
	}
}

// release queues everything that waits; what still has to wait comes back.
func (g *callGate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, causes := range g.waiting {
		g.queue(key, causes)
	}
	clear(g.waiting)
}

// reset drops everything, at the begin of a leadership.
func (g *callGate) reset() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.waiting)
	clear(g.unsent)
}

// isHeld reports whether an object waits.
func (g *callGate) isHeld(key queue.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, held := g.waiting[key]
	return held
}

// len returns the number of objects that wait.
func (g *callGate) len() int {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func (g *callGate) queue(key queue.Key, causes queue.Causes) {
	for _, cause := range causes.List() {
		g.controller.Queue.Add(key, cause)
	}
}
