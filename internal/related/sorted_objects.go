package related

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// sortedObjects is the objects of one kind in the order of a request.
type sortedObjects []*object.Object

// put replaces, adds or removes an object and returns the former one.
func (s *sortedObjects) put(namespace, name string, now *object.Object) (before *object.Object) {
	at, found := slices.BinarySearchFunc(*s, name, func(o *object.Object, name string) int {
		return compareNames(o.Namespace(), o.Name(), namespace, name)
	})
	if found {
		before = (*s)[at]
	}
	switch {
	case found && now != nil:
		(*s)[at] = now
	case found:
		*s = slices.Delete(*s, at, at+1)
	case now != nil:
		*s = slices.Insert(*s, at, now)
	}
	return before
}

func (s sortedObjects) sort() { slices.SortFunc(s, compareObjects) }

// without returns the objects outside of a namespace.
func (s sortedObjects) without(namespace string) sortedObjects {
	return slices.DeleteFunc(s, func(o *object.Object) bool { return o.Namespace() == namespace })
}

// merge merges sorted lists. If an object is in several, the first counts.
func merge(lists []sortedObjects) sortedObjects {
	if len(lists) == 1 {
		return lists[0]
	}
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, compareObjects)
	return slices.CompactFunc(all, func(a, b *object.Object) bool { return compareObjects(a, b) == 0 })
}

func compareObjects(a, b *object.Object) int {
	return compareNames(a.Namespace(), a.Name(), b.Namespace(), b.Name())
}

// compareNames orders by "namespace/name", the name of an object in a request.
func compareNames(namespaceA, nameA, namespaceB, nameB string) int {
	return cmp.Or(compareNamespaces(namespaceA, namespaceB), cmp.Compare(nameA, nameB))
}

// compareNamespaces orders namespaces as if each ended in a slash, so that "team-a" comes before
// "team".
func compareNamespaces(a, b string) int {
	n := min(len(a), len(b))
	if order := cmp.Compare(a[:n], b[:n]); order != 0 || len(a) == len(b) {
		return order
	}
	if len(a) < len(b) {
		return cmp.Compare('/', rune(b[n]))
	}
	return cmp.Compare(rune(a[n]), '/')
}
