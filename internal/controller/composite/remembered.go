package composite

import (
	"maps"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// ownWrite has the digests of an object as a decorator last wrote it. The watch returns its writes
// as events, which are not edits and must not retry a failing object at once.
type ownWrite struct{ intent, digest uint64 }

// ownWrites are the latest ones by parent.
type ownWrites struct {
	controller.SharedMap[queue.Key, ownWrite]
}

// note remembers a write. It comes before the write, because the event may be faster than
// the response.
func (w *ownWrites) note(key queue.Key, written *object.Object) {
	w.Edit(func(last map[queue.Key]ownWrite) { last[key] = ownWrite{written.IntentDigest(), written.Digest()} })
}

// isLast reports whether an object is as last written. Kinds without generations need the full
// digest: the intent does not include all their fields.
func (w *ownWrites) isLast(now *object.Object) bool {
	last := w.Get(controller.KeyOf(now))
	return last.digest == now.Digest() || now.Generation() > 0 && last.intent == now.IntentDigest()
}

// nameWaiters are parents that wait for a name which another object has. They are enqueued when it
// is free, before their backoff ends. Parents that no longer need the name are enqueued once in vain.
type nameWaiters struct {
	controller.SharedMap[childName, map[queue.Key]bool]
}

// childName identifies a child.
type childName struct {
	kind            object.GroupKind
	namespace, name string
}

func childNameOf(o *object.Object) childName {
	return childName{o.GroupKind(), o.Namespace(), o.Name()}
}

func (w *nameWaiters) add(name childName, parent queue.Key) {
	w.Edit(func(byName map[childName]map[queue.Key]bool) {
		if byName[name] == nil {
			byName[name] = map[queue.Key]bool{}
		}
		byName[name][parent] = true
	})
}

func (w *nameWaiters) drop(parent queue.Key) {
	w.Edit(func(byName map[childName]map[queue.Key]bool) {
		maps.DeleteFunc(byName, func(_ childName, waiters map[queue.Key]bool) bool {
			delete(waiters, parent)
			return len(waiters) == 0
		})
	})
}

// lostChild is a child that disappeared from a watch by label. It may be deleted, or only have lost
// the label: then it still exists and is still owned, and without its label it would never be
// deleted.
type lostChild struct {
	resource             object.Resource
	namespace, name, uid string
}

// lostChildren are remembered for the next run of their parent.
type lostChildren struct {
	controller.SharedMap[queue.Key, []lostChild]
}

func (l *lostChildren) add(parent queue.Key, lost ...lostChild) {
	l.Edit(func(all map[queue.Key][]lostChild) { all[parent] = append(all[parent], lost...) })
}
