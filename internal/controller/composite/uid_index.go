package composite

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// uidIndex finds the parent whose generated selector matches an orphan. It holds digests of UIDs,
// since parsed selectors take three times the memory. If two digests collide, the run of the parent
// checks its selector.
type uidIndex struct {
	byUID map[uint64]queue.Key
	uidOf map[queue.Key]uint64
}

func newUIDIndex() uidIndex {
	return uidIndex{byUID: map[uint64]queue.Key{}, uidOf: map[queue.Key]uint64{}}
}

// set indexes a parent, in the place of a former one with its name.
func (i uidIndex) set(key queue.Key, parent *object.Object) {
	uid := object.DigestOf([]byte(parent.UID()))
	if known, isKnown := i.uidOf[key]; isKnown && known == uid {
		return
	}
	i.drop(key)
	i.uidOf[key], i.byUID[uid] = uid, key
}

func (i uidIndex) drop(key queue.Key) {
	uid, known := i.uidOf[key]
	if !known {
		return
	}
	delete(i.uidOf, key)
	if i.byUID[uid] == key {
		delete(i.byUID, uid)
	}
}

// find returns the parent whose UID is in the label of an orphan.
func (i uidIndex) find(orphan *object.Object) (key queue.Key, found bool) {
	uid, labeled := orphan.Labels().Lookup(plan.UIDLabel)
	if !labeled {
		return queue.Key{}, false
	}
	key, found = i.byUID[object.DigestOf([]byte(uid))]
	return key, found
}
