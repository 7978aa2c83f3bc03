package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// pairs returns the search of two objects of each kind that is managed: the hook may give their children one name, or mix up
// what it knows of them. It returns nil if an author says what the objects are. The bounds are small, since two objects that
// have something in common are explored together.
func (x *Exploration) pairs(ctx context.Context, w *workspace.Workspace, main *Options) (*Pass, error) {
	if len(x.spec.Objects) > 0 {
		return nil, nil //nolint:nilnil // There is none.
	}
	two := *x
	var names []string
	for _, o := range main.Objects {
		two.spec.Objects = append(two.spec.Objects, o.JSON())
		if !x.manages(w, o) {
			continue
		}
		second, err := x.second(w, o)
		if err != nil {
			return nil, err
		}
		names = append(names, second.Ref().Identity().String())
		two.spec.Objects = append(two.spec.Objects, second.JSON())
	}
	o, err := two.world(ctx, w, main.Memo)
	if err != nil {
		return nil, err
	}
	o.Edits = main.Edits // Those of an author speak of the first one.
	if len(x.spec.Edits) == 0 {
		if o.Edits, err = two.edits(w, o.Objects); err != nil {
			return nil, err
		}
	}
	o.Unchecked, o.Bounds = main.Unchecked, main.Bounds
	o.Bounds.Edits, o.Bounds.Crashes, o.Bounds.Faults, o.Bounds.Time = min(main.Bounds.Edits, 1), 0, 0, passTime(main)
	return &Pass{Name: fmt.Sprintf("With %s besides, at most %s, without crashes and faults",
		strings.Join(names, " and "), count(o.Bounds.Edits, "edit")), Options: o}, nil
}

// manages reports whether objects are reconciled, and not only read.
func (x *Exploration) manages(w *workspace.Workspace, o *object.Object) bool {
	managed, _, _ := x.resources(w)
	return slices.ContainsFunc(managed, func(r object.Resource) bool { return r.GroupKind() == o.GroupKind() })
}

// second returns another object of a kind: the second sample in the files, or a copy with a name that begins like the first
// one, as names of children do.
func (x *Exploration) second(w *workspace.Workspace, first *object.Object) (*object.Object, error) {
	for _, o := range w.Objects {
		if o.GroupKind() == first.GroupKind() && o.Ref().Identity() != first.Ref().Identity() {
			return o, nil
		}
	}
	return first.With(encoded(first.Name()+"-1"), "metadata", "name")
}
