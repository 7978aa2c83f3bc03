package composite

import (
	"maps"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// nameWaiters are parents that wait for a name which another object has. They are enqueued when it
// is free, before their backoff ends. Parents that no longer need the name are enqueued once in vain.
type nameWaiters = map[queue.Key]bool

// childName identifies a child.
type childName struct {
	kind            object.GroupKind
	namespace, name string
}

func childNameOf(o *object.Object) childName {
	return childName{o.GroupKind(), o.Namespace(), o.Name()}
}

func (c *Controller) addNameWaiter(name childName, parent queue.Key) {
	c.nameWaiters.Edit(func(byName map[childName]nameWaiters) {
		if byName[name] == nil {
			byName[name] = nameWaiters{}
		}
		byName[name][parent] = true
	})
}

func (c *Controller) dropNameWaiter(parent queue.Key) {
	c.nameWaiters.Edit(func(byName map[childName]nameWaiters) {
		maps.DeleteFunc(byName, func(_ childName, waiters nameWaiters) bool {
			delete(waiters, parent)
			return len(waiters) == 0
		})
	})
}
