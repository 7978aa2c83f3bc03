package sdk

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// filter decides by the old object, which may be nil, and the current one.
type filter func(old, now *object.Object) bool

// predicate is a function of When for objects of a Go type.
type predicate struct {
	goType  reflect.Type
	matches filter
}

// AddPredicate limits the handler to objects for which a function of When returns true.
func (h *Handler) AddPredicate(goType reflect.Type, matches func(old, now *object.Object) bool) {
	h.predicates = append(h.predicates, predicate{goType, matches})
}

// FilterAnnotations limits the handler to objects whose annotations match a selector.
func (h *Handler) FilterAnnotations(selector string) {
	h.filterSelector("Annotations", selector, func(now *object.Object) labels.Labels {
		var annotations labels.Set
		_ = json.Unmarshal(orNull(now.Field("metadata", "annotations")), &annotations) // Parsed from an API server, they are texts.
		return annotations
	})
}

// FilterLabels limits the handler to objects whose labels match a selector.
func (h *Handler) FilterLabels(selector string) {
	h.filterSelector("Labels", selector, func(now *object.Object) labels.Labels { return now.Labels() })
}

// filterSelector adds a filter by what an object has of it.
func (h *Handler) filterSelector(option, selector string, of func(now *object.Object) labels.Labels) {
	parsed, err := labels.Parse(selector)
	h.when(err != nil, "%s: %w", option, err)
	h.filters = append(h.filters, func(_, now *object.Object) bool { return parsed.Matches(of(now)) })
}

// FilterValue limits the handler to objects in which a field has a value.
func (h *Handler) FilterValue(path string, value any) {
	want, err := canonical(value)
	h.when(err != nil, "FieldIs(%q): %w", path, err)
	h.filterField(path, func(now []byte) bool {
		got, err := canonical(json.RawMessage(orNull(now)))
		return err == nil && reflect.DeepEqual(got, want)
	})
}

// FilterPresence limits the handler to objects that have a field, or to those that do not have it.
func (h *Handler) FilterPresence(path string, present bool) {
	h.filterField(path, func(now []byte) bool { return (now != nil) == present })
}

// FilterChange limits the handler to objects in which a field differs from its old value.
func (h *Handler) FilterChange(path string) {
	names, err := object.ParsePath(path)
	if err != nil {
		h.AddProblem("field filter: %w", err)
		return
	}
	h.comparedFields = append(h.comparedFields, names)
	h.filters = append(h.filters, func(old, now *object.Object) bool {
		return old == nil || !bytes.Equal(old.Field(names...), now.Field(names...))
	})
}

// filterField adds a filter by the JSON of one field, nil if it is absent.
func (h *Handler) filterField(path string, match func(now []byte) bool) {
	names, err := object.ParsePath(path)
	h.when(err != nil, "field filter: %w", err)
	h.filters = append(h.filters, func(_, now *object.Object) bool { return match(now.Field(names...)) })
}

// predicate joins the filters and the predicates of the handler, in this order; nil if there are none.
func (h *Handler) predicate() func(old, now *object.Object) bool {
	all := slices.Concat(h.filters, lists.Map(h.predicates, func(p predicate) filter { return p.matches }))
	if len(all) == 0 {
		return nil
	}
	return func(old, now *object.Object) bool {
		return !slices.ContainsFunc(all, func(matches filter) bool { return !matches(old, now) })
	}
}

// canonical returns a value as JSON decodes it, for comparison.
func canonical(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	err = json.Unmarshal(data, &plain)
	return plain, err
}

func orNull(data []byte) []byte {
	if data == nil {
		return []byte("null")
	}
	return data
}
