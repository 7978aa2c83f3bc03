package store

import (
	"cmp"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// place is where an object is filed: under the UID of its controller or, having
// none, under each of its labels. No label has an empty key, so that one map
// holds both.
type place struct{ label, value string }

func ownedBy(uid string) place { return place{value: uid} }

// holds says whether the object is to be filed at the place.
func (p place) holds(o *object.Object) bool {
	owner, owned := o.Controller()
	if p.label == "" || owned {
		return p.label == "" && owned && owner.UID == p.value
	}
	value, found := o.Labels().Lookup(p.label)
	return found && value == p.value
}

// of is the same place as the words of an object that is filed there: those of
// one that has left would keep it in memory.
func (p place) of(o *object.Object) place {
	for same := range places(o) {
		if same == p {
			return same
		}
	}
	return p
}

// places are all places of an object; none for no object.
func places(o *object.Object) iter.Seq[place] {
	return func(yield func(place) bool) {
		if o == nil {
			return
		}
		if owner, owned := o.Controller(); owned {
			yield(ownedBy(owner.UID))
			return
		}
		for label := range o.Labels().All() {
			if !yield(place{label.Key, label.Value}) {
				return
			}
		}
	}
}

// index finds objects by place.
type index map[place]shelf

// move files an object anew. Old is nil for one that appeared, current for one
// that has gone; else both are of one namespace and name.
func (x index) move(old, current *object.Object) {
	for p := range places(old) {
		if current == nil || !p.holds(current) {
			x.take(p, old)
		}
	}
	for p := range places(current) {
		x[p] = x[p].with(current)
	}
}

func (x index) take(p place, o *object.Object) {
	if rest := x[p].without(o); len(rest) > 0 {
		x[p.of(rest[0])] = rest
	} else {
		delete(x, p)
	}
}

// narrow returns the fewest places that hold every orphan the selector can
// match. Without an equality in the selector there is no knowing.
func (x index) narrow(selector labels.Selector) (where []place, known bool) {
	requirements, _ := selector.Requirements()
	fewest := 0
	for _, r := range requirements {
		if !demandsValue(r.Operator()) {
			continue
		}
		candidates := placesOf(r)
		if size := x.size(candidates); !known || size < fewest {
			where, fewest, known = candidates, size, true
		}
	}
	return where, known
}

func demandsValue(operator selection.Operator) bool {
	return operator == selection.Equals || operator == selection.DoubleEquals || operator == selection.In
}

// placesOf are one place per value that the requirement allows. They have no
// object in common, since an object has one value per label.
func placesOf(r labels.Requirement) []place {
	var where []place
	for _, value := range r.ValuesUnsorted() {
		where = append(where, place{r.Key(), value})
	}
	return where
}

func (x index) size(where []place) int {
	size := 0
	for _, p := range where {
		size += len(x[p])
	}
	return size
}

// shelf is a set of objects sorted by namespace and name: eight bytes for each,
// and most shelves hold a few.
type shelf []*object.Object

// byName orders objects by namespace and name.
func byName(a, b *object.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// with adds the object, or puts it in the place of the one of its name.
func (s shelf) with(o *object.Object) shelf {
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

func (s shelf) without(o *object.Object) shelf {
	at, found := slices.BinarySearchFunc(s, o, byName)
	if !found {
		return s
	}
	return slices.Delete(s, at, at+1)
}

// in is the part of the shelf in one namespace; all of it if that is empty.
func (s shelf) in(namespace string) shelf {
	if namespace == "" {
		return s
	}
	from, _ := slices.BinarySearchFunc(s, namespace, inNamespace)
	s = s[from:]
	to, _ := slices.BinarySearchFunc(s, namespace+"\x00", inNamespace)
	return s[:to]
}

func inNamespace(o *object.Object, namespace string) int {
	return cmp.Compare(o.Namespace(), namespace)
}
