package cache

import (
	"cmp"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// indexKey is where an object is filed: under the UID of its controller or, having
// none, under each of its labels. No label has an empty key, so that one map
// holds both.
type indexKey struct{ label, value string }

func ownerKey(uid string) indexKey { return indexKey{value: uid} }

// matches says whether the object is to be filed at the place.
func (p indexKey) matches(o *object.Object) bool {
	owner, owned := o.Controller()
	if p.label == "" || owned {
		return p.label == "" && owned && owner.UID == p.value
	}
	value, found := o.Labels().Lookup(p.label)
	return found && value == p.value
}

// withStringsOf is the same place as the words of an object that is filed there: those of
// one that has left would keep it in memory.
func (p indexKey) withStringsOf(o *object.Object) indexKey {
	for same := range indexKeys(o) {
		if same == p {
			return same
		}
	}
	return p
}

// indexKeys are all places of an object; none for no object.
func indexKeys(o *object.Object) iter.Seq[indexKey] {
	return func(yield func(indexKey) bool) {
		if o == nil {
			return
		}
		if owner, owned := o.Controller(); owned {
			yield(ownerKey(owner.UID))
			return
		}
		for label := range o.Labels().All() {
			if !yield(indexKey{label.Key, label.Value}) {
				return
			}
		}
	}
}

// index finds objects by place.
type index map[indexKey]sortedObjects

// update files an object anew. Old is nil for one that appeared, current for one
// that has gone; else both are of one namespace and name.
func (x index) update(old, current *object.Object) {
	for p := range indexKeys(old) {
		if current == nil || !p.matches(current) {
			x.remove(p, old)
		}
	}
	for p := range indexKeys(current) {
		x[p] = x[p].with(current)
	}
}

func (x index) remove(p indexKey, o *object.Object) {
	if rest := x[p].without(o); len(rest) > 0 {
		x[p.withStringsOf(rest[0])] = rest
	} else {
		delete(x, p)
	}
}

// candidates returns the fewest places that hold every orphan the selector can
// match. Without an equality in the selector there is no knowing.
func (x index) candidates(selector labels.Selector) (keys []indexKey, known bool) {
	requirements, _ := selector.Requirements()
	fewest := 0
	for _, r := range requirements {
		if !requiresValue(r.Operator()) {
			continue
		}
		candidates := requirementKeys(r)
		if size := x.size(candidates); !known || size < fewest {
			keys, fewest, known = candidates, size, true
		}
	}
	return keys, known
}

func requiresValue(operator selection.Operator) bool {
	return operator == selection.Equals || operator == selection.DoubleEquals || operator == selection.In
}

// requirementKeys are one place per value that the requirement allows. They have no
// object in common, since an object has one value per label.
func requirementKeys(r labels.Requirement) []indexKey {
	var keys []indexKey
	for _, value := range r.ValuesUnsorted() {
		keys = append(keys, indexKey{r.Key(), value})
	}
	return keys
}

func (x index) size(keys []indexKey) int {
	size := 0
	for _, p := range keys {
		size += len(x[p])
	}
	return size
}

// sortedObjects is a set of objects sorted by namespace and name: eight bytes for each,
// and most shelves hold a few.
type sortedObjects []*object.Object

// byName orders objects by namespace and name.
func byName(a, b *object.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// with adds the object, or puts it in the place of the one of its name.
func (s sortedObjects) with(o *object.Object) sortedObjects {
	if len(s) == 0 || byName(s[len(s)-1], o) < 0 {
		return append(s, o) // lists come sorted
	}
	at, found := slices.BinarySearchFunc(s, o, byName)
	if found {
		s[at] = o
		return s
	}
	return slices.Insert(s, at, o)
}

func (s sortedObjects) without(o *object.Object) sortedObjects {
	at, found := slices.BinarySearchFunc(s, o, byName)
	if !found {
		return s
	}
	return slices.Delete(s, at, at+1)
}

// inNamespace is the part of the shelf in one namespace; all of it if that is empty.
func (s sortedObjects) inNamespace(namespace string) sortedObjects {
	if namespace == "" {
		return s
	}
	from, _ := slices.BinarySearchFunc(s, namespace, compareNamespace)
	s = s[from:]
	to, _ := slices.BinarySearchFunc(s, namespace+"\x00", compareNamespace)
	return s[:to]
}

func compareNamespace(o *object.Object, namespace string) int {
	return cmp.Compare(o.Namespace(), namespace)
}
