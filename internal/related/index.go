package related

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// place is where a rule is filed: under the namespace it selects in, or "" for
// any, and there under a label that it demands, under a name, as the value of no
// label, or under nothing.
type place struct {
	namespace string
	label     object.Label
}

// index finds the rules that may select an object.
type index map[place][]*rule

func (x index) file(r *rule, where []place) {
	for _, p := range where {
		x[p] = append(x[p], r)
	}
}

func (x index) remove(r *rule, where []place) {
	for _, p := range where {
		x[p] = slices.DeleteFunc(x[p], func(other *rule) bool { return other == r })
		if len(x[p]) == 0 {
			delete(x, p)
		}
	}
}

// of finds each rule that may select the object once; none for no object.
func (x index) of(o *object.Object) iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		if o == nil {
			return
		}
		for p := range standings(o) {
			for _, r := range x[p] {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// standings are the places at which rules that select an object can be.
func standings(o *object.Object) iter.Seq[place] {
	return func(yield func(place) bool) {
		in := func(namespace string) bool {
			for label := range o.Labels().All() {
				if !yield(place{namespace, label}) {
					return false
				}
			}
			return yield(place{namespace, object.Label{Value: o.Name()}}) && yield(place{namespace: namespace})
		}
		if in("") && o.Namespace() != "" {
			in(o.Namespace())
		}
	}
}

// placesOf files a selector under one of the label pairs that it demands: the
// values of the narrowest requirement that names any, of which an object has one
// at most.
func placesOf(namespace string, selector labels.Selector) []place {
	requirements, _ := selector.Requirements()
	var where []place
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		if !demandsValue(r.Operator()) || where != nil && len(values) >= len(where) {
			continue
		}
		where = make([]place, len(values))
		for i, value := range values {
			where[i] = place{namespace, object.Label{Key: r.Key(), Value: value}}
		}
	}
	if where == nil {
		return []place{{namespace: namespace}}
	}
	return where
}

func demandsValue(operator selection.Operator) bool {
	return operator == selection.Equals || operator == selection.DoubleEquals || operator == selection.In
}
