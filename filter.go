package setpoint

import (
	"bytes"
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// When limits a handler to objects for which the predicate returns true. T is the type of
// the handled objects; old is nil if there is none or it is unknown. The predicate must
// not change the objects, and must be fast.
func When[T any](predicate func(old, now *T) bool) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.predicates = append(s.predicates, predicate) })
}

// Annotations limits a handler to objects whose annotations match a selector, such as
// "example.com/restart,example.com/mode!=off". The syntax is that of label selectors.
func Annotations(selector string) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		parsed, err := labels.Parse(selector)
		if err != nil {
			s.addProblem("Annotations: %w", err)
			return
		}
		s.filters = append(s.filters, func(_, now *object.Object) bool {
			var annotations labels.Set
			_ = json.Unmarshal(orNull(now.Field("metadata", "annotations")), &annotations) // Parsed from an API server, they are texts.
			return parsed.Matches(annotations)
		})
	})
}

func (s *handlerSettings) filterLabels(selector string) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		s.addProblem("Labels: %w", err)
		return
	}
	s.filters = append(s.filters, func(_, now *object.Object) bool { return parsed.Matches(now.Labels()) })
}

// FieldIs limits a handler to objects in which a field has a value. See Field for paths.
func FieldIs(path string, value any) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		want, err := canonical(value)
		if err != nil {
			s.addProblem("FieldIs(%q): %w", path, err)
		}
		s.filterField(path, func(now []byte) bool {
			got, err := canonical(json.RawMessage(orNull(now)))
			return err == nil && reflect.DeepEqual(got, want)
		})
	})
}

// FieldPresent limits a handler to objects that have a field that is not null.
func FieldPresent(path string) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.filterField(path, func(now []byte) bool { return now != nil }) })
}

// FieldAbsent limits a handler to objects that do not have a field, or in which it is
// null.
func FieldAbsent(path string) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.filterField(path, func(now []byte) bool { return now == nil }) })
}

// FieldChanged limits a handler to objects in which a field differs from its old value,
// or the old value is unknown. To be called for each change of a field, use OnUpdate with
// Field: it misses no change.
func FieldChanged(path string) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		names, err := object.ParsePath(path)
		if err != nil {
			s.addProblem("field filter: %w", err)
			return
		}
		s.comparedFields = append(s.comparedFields, names)
		s.filters = append(s.filters, func(old, now *object.Object) bool {
			return old == nil || !bytes.Equal(old.Field(names...), now.Field(names...))
		})
	})
}

// filterField adds a filter by the JSON of one field, nil if it is absent.
func (s *handlerSettings) filterField(path string, match func(now []byte) bool) {
	names, err := object.ParsePath(path)
	if err != nil {
		s.addProblem("field filter: %w", err)
		return
	}
	s.filters = append(s.filters, func(_, now *object.Object) bool { return match(now.Field(names...)) })
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
