package document

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// deletionEdits is how many edits the search of deletions has: the deletion, and what goes before or after it.
const deletionEdits = 2

// deletion returns the search of what a deletion might depend on: objects are deleted, by themselves or with their
// namespace, and leave what the controller selects, while kinds are no longer served and rights are revoked. It returns nil if
// nothing is to be found: no controller keeps objects, or an author says that they stay.
func (x *Exploration) deletion(ctx context.Context, w *workspace.Workspace, main *explore.Options) (*explore.Pass, error) {
	if !slices.ContainsFunc(x.controllers(w), (*workspace.Controller).Finalizes) || slices.Contains(x.spec.Unchecked, property.Finalized) {
		return nil, nil //nolint:nilnil // There is none.
	}
	moved, err := x.inNamespaceOfItsOwn(main.Objects)
	if err != nil {
		return nil, err
	}
	o, err := moved.world(ctx, w, main.Memo)
	if err != nil {
		return nil, err
	}
	dependencies := x.dependencies(ctx, w, o.Objects)
	for _, one := range dependencies {
		begins, err := one.Object()
		if err != nil {
			return nil, err
		}
		o.Edits = append(o.Edits, world.Edit{Name: one.String(), Object: one.Ref(), Create: begins, Generated: true})
	}
	o.Edits = append(o.Edits, x.departures(w, o.Objects)...)
	o.Bounds = explore.Bounds{Edits: deletionEdits, Time: passTime(main), States: main.Bounds.States, Memory: main.Bounds.Memory,
		Writes: main.Bounds.Writes}
	o.Together, o.Unchecked = true, slices.DeleteFunc(slices.Clone(property.Properties), func(p property.Property) bool {
		return slices.Contains([]property.Property{property.Deterministic, property.Finalized, property.Valid, property.Settles}, p) &&
			!slices.Contains(x.spec.Unchecked, p)
	})
	return &explore.Pass{Name: "Deletion was explored " + circumstances(dependencies), Options: o}, nil
}

// circumstances says in which circumstances objects are deleted.
func circumstances(dependencies []loop.Outage) string {
	var all []string
	for _, one := range dependencies {
		all = append(all, one.String())
	}
	if len(all) == 0 {
		return "with the namespace, and after the object has left the selection"
	}
	return "while " + strings.Join(all, ", ") + ", with the namespace, and after the object has left the selection"
}

// ownNamespace is where objects of the namespace "default" are if it is to be deleted: the API server keeps that one.
const ownNamespace = "explored"

// inNamespaceOfItsOwn returns the exploration with its objects in a namespace that can be deleted.
func (x *Exploration) inNamespaceOfItsOwn(objects []*object.Object) (*Exploration, error) {
	moved := *x
	moved.spec.Objects = nil
	for _, o := range objects {
		if o.Namespace() == "default" {
			var err error
			if o, err = o.With(phrase.JSON(ownNamespace), "metadata", "namespace"); err != nil {
				return nil, err
			}
		}
		moved.spec.Objects = append(moved.spec.Objects, o.JSON())
	}
	return &moved, nil
}

// dependencies returns what of the world around them controllers may miss: kinds, and rights on those of children and of
// related objects. Without the right to write a parent, nothing can go.
func (x *Exploration) dependencies(ctx context.Context, w *workspace.Workspace, objects []*object.Object) []loop.Outage {
	managed, written, read := x.resources(w)
	read = append(read, x.related(ctx, w, objects)...)
	var all []loop.Outage
	add := func(of object.Resource, what ...loop.OutageKind) {
		for _, one := range what {
			outage, parents := loop.Outage{What: one, Of: of}, one != loop.Unserved && slices.Contains(managed, of)
			if !parents && !slices.Contains(all, outage) {
				all = append(all, outage)
			}
		}
	}
	for _, of := range managed {
		if of.Custom { // Its CRD may go.
			add(of, loop.Unserved)
		}
	}
	for _, of := range written {
		add(of, loop.Unserved, loop.Unwritten)
	}
	for _, of := range read {
		if !slices.Contains(written, of) { // Children that cannot be read keep a controller from starting.
			add(of, loop.Unserved, loop.Unlisted)
		}
	}
	return all
}

// related returns the kinds of the related objects of some parents: those that the controllers name, and what the customize
// hooks select. One that fails selects nothing.
func (x *Exploration) related(ctx context.Context, w *workspace.Workspace, objects []*object.Object) []object.Resource {
	var all []object.Resource
	for _, c := range x.controllers(w) {
		for i := range c.Programs {
			all = append(all, selected(ctx, w, &c.Programs[i], objects)...)
		}
		for i := range c.Handlers {
			for _, one := range c.Handlers[i].Related {
				all = append(all, one.Resource)
			}
		}
	}
	return all
}

// selected returns the kinds that the customize hook of a program selects.
func selected(ctx context.Context, w *workspace.Workspace, p *composite.Program, objects []*object.Object) []object.Resource {
	var all []object.Resource
	for _, o := range objects {
		if p.Customize == nil || o.GroupKind() != p.Parent.GroupKind() {
			continue
		}
		response, err := p.Customize.Customize(ctx, &hook.CustomizeRequest{Controller: p.Object, Parent: o.JSON()})
		if err != nil {
			continue
		}
		for _, rule := range response.Related {
			if kind, err := w.Kinds.Resolve(ctx, rule.APIVersion, rule.Resource); err == nil &&
				kind.GroupKind() != object.Namespaces.GroupKind() {
				all = append(all, kind)
			}
		}
	}
	return all
}

// departures are the ways in which objects go: they are deleted, their namespace is, or a selector no longer matches.
func (x *Exploration) departures(w *workspace.Workspace, objects []*object.Object) []world.Edit {
	var all []world.Edit
	namespaces := map[string]bool{}
	for _, o := range objects {
		ref := o.Ref().Identity()
		all = append(all, world.Edit{Name: "delete", Object: ref, Delete: true, Generated: true})
		if labels := x.departing(w, o); labels != nil {
			all = append(all, world.Edit{Name: "leave the selection", Object: ref, Patch: map[string]any{"metadata": labels},
				Generated: true})
		}
		if o.Namespace() != "" && !namespaces[o.Namespace()] {
			namespaces[o.Namespace()] = true
			all = append(all, world.Edit{Name: "delete", Object: object.Namespaces.Ref("", o.Namespace()).Identity(), Delete: true,
				Generated: true})
		}
	}
	return all
}

// departing returns metadata with which no program selects an object any more; nil if all select it in any case.
func (x *Exploration) departing(w *workspace.Workspace, o *object.Object) map[string]any {
	metadata := map[string]any{}
	for _, c := range x.controllers(w) {
		for i := range c.Programs {
			if c.Programs[i].Parent.GroupKind() != o.GroupKind() {
				continue
			}
			for _, s := range c.Programs[i].Selections {
				unmatch(metadata, "labels", s.Labels)
				unmatch(metadata, "annotations", s.Annotations)
			}
		}
	}
	if len(metadata) == 0 {
		return nil
	}
	return metadata
}

// unmatch adds what makes a selector fail.
func unmatch(metadata map[string]any, field string, s labels.Selector) {
	if s == nil {
		return
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		values, _ := metadata[field].(map[string]any)
		if values == nil {
			values = map[string]any{}
			metadata[field] = values
		}
		values[r.Key()] = nil
		switch r.Operator() {
		case selection.NotIn, selection.NotEquals:
			values[r.Key()] = r.Values().List()[0]
		case selection.DoesNotExist:
			values[r.Key()] = "true"
		}
	}
}

// pairs returns the search of two objects of each kind that is managed: the hook may give their children one name, or mix up
// what it knows of them. It returns nil if an author says what the objects are. The bounds are small, since two objects that
// have something in common are explored together.
func (x *Exploration) pairs(ctx context.Context, w *workspace.Workspace, main *explore.Options) (*explore.Pass, error) {
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
	return &explore.Pass{Name: fmt.Sprintf("With %s besides, at most %s, without crashes and faults",
		strings.Join(names, " and "), phrase.Count(o.Bounds.Edits, "edit")), Options: o}, nil
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
	return first.With(phrase.JSON(first.Name()+"-1"), "metadata", "name")
}
