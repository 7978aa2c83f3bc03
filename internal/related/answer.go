package related

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// digestSeed makes digests differ from process to process.
var digestSeed = maphash.MakeSeed()

// answer is the rules that a customize hook gave, for all parents for which it
// gave the same: what they are shown is put together once. The registry's lock
// guards it.
type answer struct {
	registry *Registry
	key      string
	// rules are sorted by kind.
	rules   []*rule
	parents crowd[queue.Key]
	// ready says that all of the rules are served.
	ready bool
	// shown is nil when it has to be put together anew.
	shown *Shown
	// turn is the event for which the parents were last woken.
	turn uint64
}

// inOrder sorts rules by kind and drops those that are there twice.
func inOrder(rules []*rule) []*rule {
	slices.SortFunc(rules, func(a, b *rule) int {
		return cmp.Or(compareKinds(a.resource, b.resource), cmp.Compare(a.serial, b.serial))
	})
	return slices.Compact(rules)
}

// compareKinds orders by "Kind.apiVersion" as a text, which is what groups are
// called on the wire.
func compareKinds(a, b object.Resource) int {
	return cmp.Compare(a.Kind+"."+a.APIVersion(), b.Kind+"."+b.APIVersion())
}

// keyOf is the same for the same rules.
func keyOf(rules []*rule) string {
	key := make([]byte, 0, 8*len(rules))
	for _, one := range rules {
		key = binary.BigEndian.AppendUint64(key, one.serial)
	}
	return string(key)
}

// complete notes whether all rules are served, and then wakes the parents.
func (a *answer) complete() {
	if a.ready || slices.ContainsFunc(a.rules, func(one *rule) bool { return one.now == nil }) {
		return
	}
	a.ready = true
	a.wake(nil)
}

// wake wakes the parents, though not before they can be shown everything.
func (a *answer) wake(changed *object.Object) {
	if a.ready {
		a.wakeAll(changed)
	}
}

// wakeAll wakes the parents, once for an event.
func (a *answer) wakeAll(changed *object.Object) {
	if a.turn == a.registry.turn {
		return
	}
	a.turn = a.registry.turn
	for _, parent := range a.parents.list {
		a.registry.options.Wake(parent, changed)
	}
}

// show puts together what the parents are shown.
func (a *answer) show() Shown {
	if a.shown != nil {
		return *a.shown
	}
	a.shown = &Shown{}
	if len(a.rules) == 0 {
		return *a.shown
	}
	var digest maphash.Hash
	digest.SetSeed(digestSeed)
	for rest := a.rules; len(rest) > 0; {
		n := sameKind(rest)
		objects := objectsOf(rest[:n])
		a.shown.Groups = append(a.shown.Groups, groupOf(rest[0].resource, objects))
		maphash.WriteComparable(&digest, rest[0].resource)
		for _, o := range objects {
			maphash.WriteComparable(&digest, o.Digest())
		}
		rest = rest[n:]
	}
	a.shown.Digest = max(digest.Sum64(), 1)
	return *a.shown
}

// sameKind is how many rules at the beginning are about one kind.
func sameKind(rules []*rule) int {
	other := slices.IndexFunc(rules, func(one *rule) bool { return compareKinds(one.resource, rules[0].resource) != 0 })
	if other < 0 {
		return len(rules)
	}
	return other
}

func objectsOf(rules []*rule) shelf {
	shelves := make([]shelf, len(rules))
	for i, one := range rules {
		shelves[i] = one.objects
	}
	return union(shelves)
}

func groupOf(resource object.Resource, objects shelf) hook.Group {
	group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind, Objects: make([]hook.Entry, len(objects))}
	for i, o := range objects {
		group.Objects[i] = hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.Whole()}
	}
	return group
}
