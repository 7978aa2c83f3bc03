package document

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// notVaried says what of the world of the controllers stays the same in all states, for the report.
func (x *Exploration) notVaried(ctx context.Context, w *workspace.Workspace, o *explore.Options) []string {
	var all []string
	for _, one := range o.Objects {
		if len(x.spec.Objects) > 0 && x.manages(w, one) && len(lists.Filter(o.Objects, isOf(one.GroupKind()))) == 1 {
			all = append(all, "a second "+one.Kind())
		}
		switch fields := unedited(o.Edits, schemaOf(w, one), one); {
		case !slices.ContainsFunc(o.Edits, func(e world.Edit) bool { return e.Object == one.Ref().Identity() }):
			all = append(all, one.Ref().Identity().String())
		case len(fields) > 0:
			all = append(all, phrase.List(fields)+" of "+one.Ref().Identity().String())
		}
	}
	for _, kind := range x.related(ctx, w, o.Objects) {
		if !slices.ContainsFunc(o.Objects, isOf(kind.GroupKind())) && kind.GroupKind() != object.Namespaces.GroupKind() {
			all = lists.Union(all, []string{"related objects of kind " + kind.Kind + ", of which there is none"})
		}
	}
	return append(append(all, "the order of the writes of one response"), x.hooksThatStay(w)...)
}

// isOf returns a function that reports whether an object is of a kind.
func isOf(kind object.GroupKind) func(*object.Object) bool {
	return func(o *object.Object) bool { return o.GroupKind() == kind }
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
func unedited(edits []world.Edit, schema *spec.Schema, of *object.Object) []string {
	fields := object.DecodeOrEmpty(of.JSON())
	edited := map[string][]string{}
	for _, e := range edits {
		if e.Object == of.Ref().Identity() {
			world.AddPaths(edited, nil, e.Patch)
		}
	}
	all := map[string][]string{}
	for _, name := range intents {
		if value, has := fields[name].(map[string]any); has {
			world.AddPaths(all, []string{name}, value)
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
func (x *Exploration) edits(w *workspace.Workspace, objects []*object.Object) ([]world.Edit, error) {
	var all []world.Edit
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
		for _, e := range Generate(o, schemaOf(w, o), generatedEdits) {
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

func (e *editSpec) edit(w *workspace.Workspace, objects []*object.Object) (world.Edit, error) {
	given := 0
	for _, is := range []bool{e.Patch != nil, e.Create != nil, e.Delete} {
		if is {
			given++
		}
	}
	switch {
	case e.Name == "":
		return world.Edit{}, errors.New(".name: is required")
	case given != 1:
		return world.Edit{}, errors.New(": has to have one of patch, create and delete")
	}
	if e.Create != nil {
		o, err := object.Parse(e.Create)
		if err == nil {
			o, err = inNamespace(w, o)
		}
		if err != nil {
			return world.Edit{}, fmt.Errorf(".create: %w", err)
		}
		return world.Edit{Name: e.Name, Object: o.Ref().Identity(), Create: world.Manifest{Object: o}}, nil
	}
	fitting := slices.DeleteFunc(slices.Clone(objects), func(o *object.Object) bool { return !e.Of.fits(o) })
	if len(fitting) != 1 {
		return world.Edit{}, fmt.Errorf(".of: fits %d objects; name one by kind, namespace and name", len(fitting))
	}
	return world.Edit{Name: e.Name, Object: fitting[0].Ref().Identity(), Patch: e.Patch, Delete: e.Delete}, nil
}

func (e *editedObject) fits(o *object.Object) bool {
	return e == nil || (e.Kind == "" || e.Kind == o.Kind()) && (e.Namespace == "" || e.Namespace == o.Namespace()) &&
		(e.Name == "" || e.Name == o.Name())
}

// Generate returns edits that a user may make of an object's spec, or of the data that ConfigMaps and Secrets have in its
// place: its numbers up and down, its booleans, texts and enums changed, optional fields removed, all back to what they
// were, and its deletion. Values stay within the schema, which may be nil. The order depends on the arguments alone; at most so
// many edits of fields are returned as the limit says, with different fields first.
func Generate(o *object.Object, schema *spec.Schema, limit int) []world.Edit {
	fields := object.DecodeOrEmpty(o.JSON())
	g, first := &generator{encoded: o.Kind() == secrets}, map[string]any{}
	for _, name := range intents {
		if intent, has := fields[name].(map[string]any); has {
			first[name] = intent
			g.fieldsOf(memberOf(schema, name), intent, []string{name})
		}
	}
	var edits []world.Edit
	for round := 0; len(edits) < limit && slices.ContainsFunc(g.fields, func(f []world.Edit) bool { return len(f) > round }); round++ {
		for _, field := range g.fields {
			if round < len(field) && len(edits) < limit {
				edits = append(edits, field[round])
			}
		}
	}
	if len(edits) > 0 {
		edits = append(edits, world.Edit{Name: "back to the first " + strings.Join(slices.Sorted(maps.Keys(first)), " and "), Patch: first})
	}
	edits = append(edits, world.Edit{Name: "delete", Delete: true})
	for i := range edits {
		edits[i].Object = o.Ref().Identity()
	}
	return edits
}

// intents are the fields with what users want of an object.
var intents = []string{"spec", "data"}

// secrets is the kind whose data are in Base64, and otherSecret a value for them.
const secrets, otherSecret = "Secret", "b3RoZXI="

// generator collects the edits of each field.
type generator struct {
	encoded bool
	fields  [][]world.Edit
}

// memberOf returns the schema of a member; nil if it is not known.
func memberOf(schema *spec.Schema, name string) *spec.Schema {
	if schema == nil {
		return nil
	}
	if p, has := schema.Properties[name]; has {
		return &p
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Schema
	}
	return nil
}

func (g *generator) fieldsOf(schema *spec.Schema, value map[string]any, path []string) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		below := append(slices.Clone(path), name)
		member := memberOf(schema, name)
		if nested, is := value[name].(map[string]any); is {
			g.fieldsOf(member, nested, below)
			continue
		}
		var edits []world.Edit
		others := otherValues(member, value[name])
		if g.encoded {
			others = []any{otherSecret}
		}
		for _, other := range others {
			edits = append(edits, edited(below, value[name], other))
		}
		if isOptional(schema, name, value[name]) {
			edits = append(edits, edited(below, value[name], nil))
		}
		if len(edits) > 0 {
			g.fields = append(g.fields, edits)
		}
	}
}

// isOptional reports whether a schema declares a field that users may leave out. Lists mean too much for that: without
// containers, the template of a pod is invalid.
func isOptional(schema *spec.Schema, name string, value any) bool {
	if schema == nil || slices.Contains(schema.Required, name) {
		return false
	}
	_, isList := value.([]any)
	_, declared := schema.Properties[name]
	return declared && !isList
}

func edited(path []string, from, to any) world.Edit {
	patch := to
	for _, name := range slices.Backward(path) {
		patch = map[string]any{name: patch}
	}
	where := world.PathOf(path)
	name := fmt.Sprintf("%s from %s to %s", where, short(from), short(to))
	if to == nil {
		name = "remove " + where
	}
	return world.Edit{Name: name, Patch: patch.(map[string]any)}
}

func short(value any) string { return phrase.Value(phrase.JSON(value)) }

// otherValues returns values that a field may have instead.
func otherValues(schema *spec.Schema, value any) []any {
	if schema != nil && len(schema.Enum) > 0 {
		return otherMembers(schema.Enum, value)
	}
	switch value := value.(type) {
	case bool:
		return []any{!value}
	case string:
		return otherTexts(schema, value)
	}
	if number, is := object.Number(value); is {
		return otherNumbers(schema, number)
	}
	return nil
}

// otherMembers returns the next value of an enum.
func otherMembers(enum []any, value any) []any {
	is := func(other any) bool { return bytes.Equal(phrase.JSON(other), phrase.JSON(value)) }
	at := slices.IndexFunc(enum, is)
	next := enum[(at+1)%len(enum)]
	if is(next) {
		return nil
	}
	return []any{next}
}

// otherNumbers returns the next higher and lower number within the bounds. Without a minimum, counts do not go below 0.
func otherNumbers(schema *spec.Schema, number float64) []any {
	low, high, step := 0.0, math.Inf(1), 1.0
	if number < 0 {
		low = math.Inf(-1)
	}
	if schema != nil {
		low, high, step = *cmp.Or(schema.Minimum, &low), *cmp.Or(schema.Maximum, &high), *cmp.Or(schema.MultipleOf, &step)
	}
	var all []any
	for _, other := range []float64{number + step, number - step} {
		if other >= low && other <= high {
			all = append(all, json.Number(fmt.Sprint(other)))
		}
	}
	return all
}

// otherTexts returns a text with one more character. Those with a pattern or a format stay as they are.
func otherTexts(schema *spec.Schema, text string) []any {
	other := text + "x"
	if schema != nil && (schema.Pattern != "" || schema.Format != "" || schema.MaxLength != nil &&
		int64(utf8.RuneCountInString(other)) > *schema.MaxLength) {
		return nil
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []any{other}
}
