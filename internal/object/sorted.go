package object

import (
	"cmp"
	"slices"
)

// Sorted are objects of one kind in the order of requests to hooks, that of "namespace/name". It takes eight bytes per
// object, and most sets are small.
type Sorted []*Object

// CompareNames orders objects by "namespace/name".
func CompareNames(a, b *Object) int {
	return cmp.Or(compareNamespace(a, b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// compareNamespace orders namespaces as if each ended in a slash, so that "team-a" comes before "team".
func compareNamespace(o *Object, b string) int {
	a := o.Namespace()
	n := min(len(a), len(b))
	if order := cmp.Compare(a[:n], b[:n]); order != 0 || len(a) == len(b) {
		return order
	}
	if len(a) < len(b) {
		return cmp.Compare('/', b[n])
	}
	return cmp.Compare(a[n], '/')
}

// Put adds an object, or replaces the one of its name, which it returns.
func (s *Sorted) Put(o *Object) (former *Object) {
	if n := len(*s); n == 0 || CompareNames((*s)[n-1], o) < 0 {
		*s = append(*s, o) // Lists are sorted.
		return nil
	}
	at, found := slices.BinarySearchFunc(*s, o, CompareNames)
	if !found {
		*s = slices.Insert(*s, at, o)
		return nil
	}
	former, (*s)[at] = (*s)[at], o
	return former
}

// Remove removes the object with the name of another one, and returns it; nil if there is none.
func (s *Sorted) Remove(o *Object) (former *Object) {
	at, found := slices.BinarySearchFunc(*s, o, CompareNames)
	if found {
		former = (*s)[at]
		*s = slices.Delete(*s, at, at+1)
	}
	return former
}

// In returns the objects of one namespace, or all if it is empty.
func (s Sorted) In(namespace string) Sorted {
	if namespace == "" {
		return s
	}
	from, _ := slices.BinarySearchFunc(s, namespace, compareNamespace)
	s = s[from:]
	to, _ := slices.BinarySearchFunc(s, namespace, func(o *Object, namespace string) int {
		return cmp.Or(compareNamespace(o, namespace), -1)
	})
	return s[:to]
}
