package explore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
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
			g.object(property(schema, name), intent, []string{name})
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

// property returns the schema of a member; nil if it is not known.
func property(schema *spec.Schema, name string) *spec.Schema {
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
		member := property(schema, name)
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

// UnmadeEdit is an edit of users that was tried, and never made.
type UnmadeEdit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Reason is why: the error of the API server, or that it changes nothing.
	Reason string `json:"reason"`
	// Failed is set if the exploration fails because of it.
	Failed bool `json:"failed"`
}

func (u UnmadeEdit) String() string {
	return fmt.Sprintf("The edit %q of %s was never made: %s", u.Name, u.Object, u.Reason)
}

// attempts remembers what came of the edits of users. It is safe for concurrent use.
type attempts struct {
	mu  sync.Mutex
	all []attempt
}

// attempt is what came of one edit.
type attempt struct {
	made bool
	// err is the error of the API server: that with the smallest text, so that it does not depend on the order in which
	// workers try. It is errUnchanged if the server has refused nothing, and nil if the edit was never tried.
	err error
}

// add notes the result of an edit.
func (a *attempts) add(edit int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := &a.all[edit]
	switch {
	case err == nil:
		one.made = true
	case one.err == nil, errors.Is(one.err, errUnchanged), !errors.Is(err, errUnchanged) && err.Error() < one.err.Error():
		one.err = err
	}
}

// unmade returns the edits that were tried in vain. Those that come from a schema are guesses: they have a note, and only
// if the API server refuses them.
func (s *search) unmade() (written []UnmadeEdit, note string) {
	var guesses []string
	for i, one := range s.attempts.all {
		e := &s.options.Edits[i]
		switch refused := one.err != nil && !errors.Is(one.err, errUnchanged); {
		case one.made || one.err == nil:
		case e.Generated && refused:
			guesses = append(guesses, fmt.Sprintf("%s (%v)", e.Name, one.err))
		case e.Generated:
		default:
			written = append(written, UnmadeEdit{e.Name, e.Object, s.reasonOf(one.err), refused && s.isFailure(one.err)})
		}
	}
	if len(guesses) > 0 {
		note = "The API server refuses these generated edits: " + strings.Join(guesses, "; ") + "."
	}
	return written, note
}

// isFailure reports whether an exploration fails because the API server has refused an edit in all states. Its author
// wants to know what follows the edit, and without it the exploration holds too easily. If the search ended early, the edit
// may be possible in a later state, and a slow machine must not make a test fail. An unknown field is one in any state.
//
// An edit that changes nothing is no failure: one that takes back another needs a bound of two edits.
func (s *search) isFailure(err error) bool { return s.stopped == "" || unknownFields(err) != "" }

// unknownFields returns the part of an error that names fields which the schema does not have; empty if it names none. The
// API server puts the whole object before it.
func unknownFields(err error) string {
	if err == nil {
		return ""
	}
	_, fields, _ := strings.Cut(err.Error(), "strict decoding error: ")
	return fields
}

func (s *search) reasonOf(err error) string {
	switch {
	case errors.Is(err, errUnchanged):
		return "it changes nothing in what was explored, with at most " + count(s.options.Bounds.Edits, "edit")
	case unknownFields(err) != "":
		return unknownFields(err)
	case s.isFailure(err):
		return "the API server refuses it: " + err.Error()
	}
	return "the API server refused it in what was explored: " + err.Error()
}
