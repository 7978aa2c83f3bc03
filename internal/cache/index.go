package cache

import (
	"cmp"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// indexKey is a key of the index: the UID of an object's controller or, without one, each of
// its labels. No label has an empty key, so one map holds both.
type indexKey struct{ label, value string }

func ownerKey(uid string) indexKey { return indexKey{value: uid} }

// matches reports whether the object has the key.
func (k indexKey) matches(o *object.Object) bool {
	owner, owned := o.Controller()
	if k.label == "" || owned {
		return k.label == "" && owned && owner.UID == k.value
	}
	value, found := o.Labels().Lookup(k.label)
	return found && value == k.value
}

// withStringsOf returns an equal key with strings of the object. Strings of a removed object
// would keep it in memory.
func (k indexKey) withStringsOf(o *object.Object) indexKey {
	for same := range indexKeys(o) {
		if same == k {
			return same
		}
	}
	return k
}

// indexKeys returns the keys of an object; none for nil.
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

// index finds objects by key.
type index map[indexKey]sortedObjects

// update replaces an object. Old is nil for an added object, current for a deleted one;
// otherwise both have the same name.
func (x index) update(old, current *object.Object) {
	for k := range indexKeys(old) {
		if current == nil || !k.matches(current) {
			x.remove(k, old)
		}
	}
	for k := range indexKeys(current) {
		x[k] = x[k].with(current)
	}
}

func (x index) remove(k indexKey, o *object.Object) {
	if rest := x[k].without(o); len(rest) > 0 {
		x[k.withStringsOf(rest[0])] = rest
	} else {
		delete(x, k)
	}
}

// candidates returns the fewest keys that cover all orphans the selector can match. It is
// unknown for selectors without an equality.
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

// requirementKeys returns a key per value of the requirement. Their objects are disjoint.
func requirementKeys(r labels.Requirement) []indexKey {
	return lists.Map(r.ValuesUnsorted(), func(value string) indexKey { return indexKey{r.Key(), value} })
}

func (x index) size(keys []indexKey) int {
	size := 0
	for _, k := range keys {
		size += len(x[k])
	}
	return size
}

// sortedObjects is a set of objects sorted by namespace and name. It takes eight bytes per
// object, and most sets are small.
type sortedObjects []*object.Object

// byName orders objects by namespace and name.
func byName(a, b *object.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// with adds an object, or replaces the one of its name.
func (s sortedObjects) with(o *object.Object) sortedObjects {
	if len(s) == 0 || byName(s[len(s)-1], o) < 0 {
		return append(s, o) // lists are sorted
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

// inNamespace returns the objects of one namespace, or all if it is empty.
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
