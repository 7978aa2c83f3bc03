// Package explore searches all interleavings of a controller, its API server, its users and its environment
// within bounds, and reports the properties that do not hold, each with a shortest story.
//
// It contains the states, the steps between them, the search, the properties, the invariants of authors, and the
// stories. It neither decides what a controller does nor what an API server stores: packages below it do, behind
// the interfaces of this file. Everything they compute is remembered by its input, so that most steps are lookups.
package explore

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// name identifies an object.
type name struct {
	id  uint32
	ref object.Ref
	// uid is what the UIDs of all objects with the name begin with; nil until one is known.
	uid atomic.Pointer[string]
}

// version is a version of an object: what an API server stored, a cache has, or an event is about.
type version struct {
	id     uint32
	name   *name
	object *object.Object
	// body is the number of everything but the resource version.
	body uint32
	// number is the resource version. Versions of different objects do not compare.
	number uint64
	// gone marks the last version of a deleted object.
	gone bool
	// uids are those of the body.
	uids []string
}

// body is what versions are equal in that differ by their resource version only.
type body struct {
	id uint32
	// uids are those that the object has, among them its own.
	uids []string
}

func compareNames(a, b *name) int {
	if a == b {
		return 0
	}
	return compareRefs(a.ref, b.ref)
}

func (e *engine) nameOf(ref object.Ref) *name {
	ref = ref.Identity()
	k := key(nil).text(ref.Group).text(ref.Kind.Kind).text(ref.Namespace).text(ref.Name)
	return e.names.add(k, func(id uint32) *name { return &name{id: id, ref: ref} })
}

// versionOf returns the version of an object. Servers return what they did not change as it was.
func (e *engine) versionOf(o *object.Object, gone bool) *version {
	if known, found := e.parsed.Load(o); found && !gone {
		return known.(*version)
	}
	data := o.JSONWithManagedFields()
	// The member is as the API server writes it. If the text is elsewhere too, versions differ that could be equal.
	field := []byte(`"resourceVersion":"` + o.ResourceVersion() + `"`)
	content := e.bodies.add(bytes.Replace(data, field, nil, 1), func(id uint32) *body {
		return &body{id: id, uids: apiserver.NewFingerprint(o).UIDs}
	})
	n := e.nameOf(o.Ref())
	if n.uid.Load() == nil && len(o.UID()) > birthSize {
		prefix := strings.Clone(o.UID()[:len(o.UID())-birthSize])
		n.uid.Store(&prefix)
	}
	v := e.numbered(&version{name: n, object: o, body: content.id, number: o.Version(), gone: gone, uids: content.uids})
	if !gone {
		e.parsed.Store(v.object, v)
	}
	return v
}

func (e *engine) numbered(v *version) *version {
	return e.versions.add(v.key(v.number), func(id uint32) *version {
		v.id = id
		return v
	})
}

// key identifies the version, with another resource version.
func (v *version) key(number uint64) key {
	k := key(nil).number(v.name.id).number(v.body).long(number)
	if v.gone {
		k = append(k, 1)
	}
	return k
}

// renumbered returns a version with another resource version.
func (e *engine) renumbered(v *version, number uint64) *version {
	if v.number == number {
		return v
	}
	return e.versions.add(v.key(number), func(id uint32) *version {
		text := []byte(strconv.Quote(strconv.FormatUint(number, 10)))
		o, err := v.object.With(text, "metadata", "resourceVersion")
		if err != nil {
			// The object was parsed before, and a version of digits changes nothing else.
			panic("renumber " + v.name.ref.String() + ": " + err.Error())
		}
		return &version{id: id, name: v.name, object: o, body: v.body, number: number, gone: v.gone, uids: v.uids}
	})
}

// asGone returns a version as the last one.
func (e *engine) asGone(v *version, number uint64) *version {
	last := *e.renumbered(v, number)
	last.gone = true
	return e.numbered(&last)
}

// enqueue adds items to those that a process has to reconcile, which are sorted and have one item for each key.
func enqueue(with Process, items []Item, more ...Item) []Item {
	if len(more) == 0 {
		return items
	}
	all := slices.Clone(items)
	for _, item := range more {
		i, found := slices.BinarySearchFunc(all, item, compareItems)
		if found {
			failed := all[i].Failed && item.Failed
			all[i] = with.Merge(all[i], item)
			all[i].Failed = failed
			continue
		}
		all = slices.Insert(all, i, item)
	}
	return all
}

// refers reports whether an item has objects, such as those of events that handlers have not seen.
func refers(items []Item) bool {
	return slices.ContainsFunc(items, func(item Item) bool { return item.Refers })
}
