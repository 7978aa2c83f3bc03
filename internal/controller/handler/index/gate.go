package index

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Gate holds back the reconciles of objects until the indexes of the process are complete and have the latest change of
// the object. A nil Gate holds nothing back. Reset opens it.
type Gate struct {
	// IsReleased reports whether the controller only releases an object: its handlers are not called.
	IsReleased func(queue.Key) bool
	// IndexesComplete reports whether all indexes of the process are.
	IndexesComplete func() bool
	// Add queues an object.
	Add func(queue.Key, queue.Cause)

	mu sync.Mutex
	// unsent counts the changes that are not in the index yet. waiting are the causes of the reconciles that are held back.
	unsent  map[queue.Key]int
	waiting map[queue.Key]queue.Causes
}

// Holds reports whether a reconcile has to wait. It is queued again when it may go on. Objects
// that the controller only releases do not wait.
func (g *Gate) Holds(item queue.Item) bool {
	if g == nil || g.IsReleased(item.Key) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.IndexesComplete() && g.unsent[item.Key] == 0 {
		return false
	}
	causes := queue.NewCauses(g.waiting[item.Key].List()...)
	causes.Merge(item.Causes)
	g.waiting[item.Key] = causes
	return true
}

// IsOpen reports whether calls about an object may be made.
func (g *Gate) IsOpen(key queue.Key) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsent[key] == 0
}

// close records a change that is not in the index yet.
func (g *Gate) close(key queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsent[key]++
}

// open records that changes are in the index, and queues what waited for them.
func (g *Gate) open(keys []queue.Key) {
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
			g.requeue(key, causes)
		}
	}
}

// Release queues everything that waits; what still has to wait comes back.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, causes := range g.waiting {
		g.requeue(key, causes)
	}
	clear(g.waiting)
}

// Reset drops everything, at the begin of a leadership.
func (g *Gate) Reset() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsent, g.waiting = map[queue.Key]int{}, map[queue.Key]queue.Causes{}
}

// IsHeld reports whether an object waits.
func (g *Gate) IsHeld(key queue.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, held := g.waiting[key]
	return held
}

// Len returns the number of objects that wait.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func (g *Gate) requeue(key queue.Key, causes queue.Causes) {
	for _, cause := range causes.List() {
		g.Add(key, cause)
	}
}
