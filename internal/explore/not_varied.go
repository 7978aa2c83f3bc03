package explore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// notVaried says what of the world of the controllers stays the same in all states, for the report.
func (x *Exploration) notVaried(ctx context.Context, w *workspace.Workspace, o *Options) []string {
	var all []string
	for _, one := range o.Objects {
		sameKind := func(other *object.Object) bool { return other.GroupKind() == one.GroupKind() && other != one }
		if len(x.spec.Objects) > 0 && x.manages(w, one) && !slices.ContainsFunc(o.Objects, sameKind) {
			all = append(all, "a second "+one.Kind())
		}
		switch fields := o.unedited(schemaOf(w, one), one); {
		case !slices.ContainsFunc(o.Edits, func(e Edit) bool { return e.Object == one.Ref().Identity() }):
			all = append(all, one.Ref().Identity().String())
		case len(fields) > 0:
			all = append(all, shortList(fields)+" of "+one.Ref().Identity().String())
		}
	}
	for _, kind := range x.related(ctx, w, o.Objects) {
		text := "related objects of kind " + kind.Kind + ", of which there is none"
		is := func(one *object.Object) bool { return one.GroupKind() == kind.GroupKind() }
		if !slices.ContainsFunc(o.Objects, is) && kind.GroupKind() != object.Namespaces.GroupKind() && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return append(append(all, "the order of the writes of one response"), x.hooksThatStay(w)...)
}

// hooksThatStay says which hooks are not restarted.
func (x *Exploration) hooksThatStay(w *workspace.Workspace) []string {
	if !w.CanOpenAgain() {
		return []string{"what functions remember in this process, which is not restarted"}
	}
	var all []string
	for _, c := range x.controllers(w) {
		for _, address := range w.Elsewhere(c) {
			all = append(all, "what the hook at "+address+" remembers, which no program of the files serves")
		}
	}
	return all
}

// unedited returns the fields of an object, or of its schema, that no edit changes.
func (o *Options) unedited(schema *spec.Schema, of *object.Object) []string {
	fields, err := object.Decode(of.JSON())
	if err != nil {
		return nil
	}
	edited := map[string][]string{}
	for _, e := range o.Edits {
		if e.Object == of.Ref().Identity() {
			addPaths(edited, nil, e.Patch)
		}
	}
	all := map[string][]string{}
	for _, name := range intents {
		if value, has := fields[name].(map[string]any); has {
			addPaths(all, []string{name}, value)
		}
		addDeclared(all, name, property(schema, name))
	}
	is := func(path string) bool {
		for name := range edited {
			if name == path || strings.HasPrefix(path, name+".") || strings.HasPrefix(name, path+".") {
				return true
			}
		}
		return false
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), is)
}

// addPaths adds the paths of values, and their names.
func addPaths(all map[string][]string, names []string, value map[string]any) {
	for name, member := range value {
		below := append(slices.Clone(names), name)
		if nested, is := member.(map[string]any); is && len(nested) > 0 {
			addPaths(all, below, nested)
		} else {
			all[pathOf(below)] = below
		}
	}
}

// pathOf joins the names of a path.
func pathOf(names []string) string {
	path := ""
	for _, name := range names {
		path = object.JoinPath(path, name)
	}
	return path
}

// addDeclared adds the paths of the fields that a schema declares.
func addDeclared(all map[string][]string, path string, schema *spec.Schema) {
	if schema == nil {
		return
	}
	for name, member := range schema.Properties {
		below := object.JoinPath(path, name)
		if len(member.Properties) > 0 {
			addDeclared(all, below, &member)
		} else {
			all[below] = nil
		}
	}
}
