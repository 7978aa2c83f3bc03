package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
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
		switch fields := unedited(o.Edits, schemaOf(w, one), one); {
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
func unedited(edits []Edit, schema *spec.Schema, of *object.Object) []string {
	fields, err := object.Decode(of.JSON())
	if err != nil {
		return nil
	}
	edited := map[string][]string{}
	for _, e := range edits {
		if e.Object == of.Ref().Identity() {
			addPaths(edited, nil, e.Patch)
		}
	}
	all := map[string][]string{}
	for _, name := range intents {
		if value, has := fields[name].(map[string]any); has {
			addPaths(all, []string{name}, value)
		}
		addDeclared(all, name, memberOf(schema, name))
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

// editSpec is an edit in a document. One of patch, create and delete is set.
type editSpec struct {
	Name string `json:"name"`
	// Of is the object; optional if there is only one.
	Of     *editedObject   `json:"of"`
	Patch  map[string]any  `json:"patch"`
	Create json.RawMessage `json:"create"`
	Delete bool            `json:"delete"`
}

type editedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// edits returns those of the document, or edits generated from the schemas of the objects.
func (x *Exploration) edits(w *workspace.Workspace, objects []*object.Object) ([]Edit, error) {
	var all []Edit
	for i := range x.spec.Edits {
		candidates := objects
		if x.spec.Edits[i].Of == nil { // Related objects of the files are not what an edit of the only object means.
			unmanaged := func(o *object.Object) bool { return !x.manages(w, o) }
			if managed := slices.DeleteFunc(slices.Clone(objects), unmanaged); len(managed) > 0 {
				candidates = managed
			}
		}
		one, err := x.spec.Edits[i].edit(w, candidates)
		if err != nil {
			return nil, fmt.Errorf("edits[%d]%w", i, err)
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		return all, nil
	}
	for _, o := range objects {
		generated, err := Generate(o, schemaOf(w, o), generatedEdits)
		if err != nil {
			return nil, fmt.Errorf("generate edits of %s: %w", o.Ref(), err)
		}
		for _, e := range generated {
			e.Generated = true
			all = append(all, e)
		}
	}
	return all, nil
}

// schemaOf returns the schema of an object by its CRD; nil if none is in the files.
func schemaOf(w *workspace.Workspace, o *object.Object) *spec.Schema {
	all := w.Kinds.Defined()
	at := slices.IndexFunc(all, func(s schema.Served) bool { return s.GroupKind() == o.GroupKind() && s.APIVersion() == o.APIVersion() })
	if at < 0 {
		return nil
	}
	return all[at].Schema
}

// edit returns the edit of a document.
func (e *editSpec) edit(w *workspace.Workspace, objects []*object.Object) (Edit, error) {
	given := 0
	for _, is := range []bool{e.Patch != nil, e.Create != nil, e.Delete} {
		if is {
			given++
		}
	}
	switch {
	case e.Name == "":
		return Edit{}, errors.New(".name: is required")
	case given != 1:
		return Edit{}, errors.New(": has to have one of patch, create and delete")
	}
	if e.Create != nil {
		o, err := object.Parse(e.Create)
		if err == nil {
			o, err = inNamespace(w, o)
		}
		if err != nil {
			return Edit{}, fmt.Errorf(".create: %w", err)
		}
		return Edit{Name: e.Name, Object: o.Ref().Identity(), Create: o}, nil
	}
	fitting := slices.DeleteFunc(slices.Clone(objects), func(o *object.Object) bool { return !e.Of.fits(o) })
	if len(fitting) != 1 {
		return Edit{}, fmt.Errorf(".of: fits %d objects; name one by kind, namespace and name", len(fitting))
	}
	return Edit{Name: e.Name, Object: fitting[0].Ref().Identity(), Patch: e.Patch, Delete: e.Delete}, nil
}

// fits reports whether an object is meant.
func (e *editedObject) fits(o *object.Object) bool {
	return e == nil || (e.Kind == "" || e.Kind == o.Kind()) && (e.Namespace == "" || e.Namespace == o.Namespace()) &&
		(e.Name == "" || e.Name == o.Name())
}
