package compose

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// nameWaiters remembers which parents wait for a name that another object has. They are enqueued
// when it is free, before their backoff ends. Parents that no longer need the name are enqueued
// once in vain.
type nameWaiters struct {
	mu     sync.Mutex
	byName map[childName]map[queue.Key]bool
}

// childName identifies a child.
type childName struct {
	kind            object.GroupKind
	namespace, name string
}

func childNameOf(o *object.Object) childName {
	return childName{o.GroupKind(), o.Namespace(), o.Name()}
}

func newNameWaiters() *nameWaiters { return &nameWaiters{byName: map[childName]map[queue.Key]bool{}} }

func (w *nameWaiters) add(name childName, parent queue.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName[name] == nil {
		w.byName[name] = map[queue.Key]bool{}
	}
	w.byName[name][parent] = true
}

func (w *nameWaiters) drop(parent queue.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, waiters := range w.byName {
		delete(waiters, parent)
		if len(waiters) == 0 {
			delete(w.byName, name)
		}
	}
}

// take removes and returns the parents that wait for a name.
func (w *nameWaiters) take(name childName) map[queue.Key]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiters := w.byName[name]
	delete(w.byName, name)
	return waiters
}
