package explore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Generate returns edits that a user may make of an object's spec, or of the data that ConfigMaps and Secrets have in its
// place: its numbers up and down, its booleans, texts and enums changed, optional fields removed, all back to what they
// were, and its deletion. Values stay within the schema, which may be nil. The order depends on the arguments alone; at most so many edits
// of fields are returned as the limit says,
// with different fields first.
func Generate(o *object.Object, schema *spec.Schema, limit int) ([]Edit, error) {
	fields, err := object.Decode(o.JSON())
	if err != nil {
		return nil, err
	}
	g, first := &generator{encoded: o.Kind() == secrets}, map[string]any{}
	for _, name := range intents {
		if intent, has := fields[name].(map[string]any); has {
			first[name] = intent
			g.object(memberOf(schema, name), intent, []string{name})
		}
	}
	var edits []Edit
	for round := 0; len(edits) < limit && slices.ContainsFunc(g.fields, func(f []Edit) bool { return len(f) > round }); round++ {
		for _, field := range g.fields {
			if round < len(field) && len(edits) < limit {
				edits = append(edits, field[round])
			}
		}
	}
	if len(edits) > 0 {
		edits = append(edits, Edit{Name: "back to the first " + strings.Join(slices.Sorted(maps.Keys(first)), " and "), Patch: first})
	}
	edits = append(edits, Edit{Name: "delete", Delete: true})
	for i := range edits {
		edits[i].Object = o.Ref().Identity()
	}
	return edits, nil
}

// intents are the fields with what users want of an object.
var intents = []string{"spec", "data"}

// secrets is the kind whose data are in Base64, and otherSecret a value for them.
const secrets, otherSecret = "Secret", "b3RoZXI="

// generator collects the edits of each field.
type generator struct {
	encoded bool
	fields  [][]Edit
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

func (g *generator) object(schema *spec.Schema, value map[string]any, path []string) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		below := append(slices.Clone(path), name)
		member := memberOf(schema, name)
		if nested, is := value[name].(map[string]any); is {
			g.object(member, nested, below)
			continue
		}
		var edits []Edit
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

// edited returns the edit of a field.
func edited(path []string, from, to any) Edit {
	patch := to
	for _, name := range slices.Backward(path) {
		patch = map[string]any{name: patch}
	}
	where := ""
	for _, name := range path {
		where = object.JoinPath(where, name)
	}
	name := fmt.Sprintf("%s from %s to %s", where, short(from), short(to))
	if to == nil {
		name = "remove " + where
	}
	return Edit{Name: name, Patch: patch.(map[string]any)}
}

func short(value any) string { return orAbsent(encoded(value)) }

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
	is := func(other any) bool { return bytes.Equal(encoded(other), encoded(value)) }
	at := slices.IndexFunc(enum, is)
	next := enum[(at+1)%len(enum)]
	if is(next) {
		return nil
	}
	return []any{next}
}

// otherNumbers returns the next higher and lower number within the bounds. Without a minimum, counts do not go below 0.
func otherNumbers(schema *spec.Schema, number float64) []any {
	low, high := 0.0, math.Inf(1)
	if number < 0 {
		low = math.Inf(-1)
	}
	if schema != nil && schema.Minimum != nil {
		low = *schema.Minimum
	}
	if schema != nil && schema.Maximum != nil {
		high = *schema.Maximum
	}
	step := 1.0
	if schema != nil && schema.MultipleOf != nil {
		step = *schema.MultipleOf
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
