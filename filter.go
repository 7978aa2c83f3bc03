package setpoint

import (
	"bytes"
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// When limits a handler to objects for which a function says so. It is of the
// handled type; old is nil where there is none, or none that is known. The
// objects are its own to read, and the function must be quick.
func When[T any](predicate func(old, now *T) bool) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.predicates = append(s.predicates, predicate) })
}

// Annotations limits a handler to objects whose annotations match a selector,
// such as "example.com/restart,example.com/mode!=off". Written like a label
// selector.
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

// filterLabels adds a filter by labels.
func (s *handlerSettings) filterLabels(selector string) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		s.addProblem("Labels: %w", err)
		return
	}
	s.filters = append(s.filters, func(_, now *object.Object) bool { return parsed.Matches(now.Labels()) })
}

// FieldIs limits a handler to objects in which a field has a value: anything that
// can be written as JSON. See Field about paths.
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

// FieldPresent limits a handler to objects that have a field which is not null.
func FieldPresent(path string) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.filterField(path, func(now []byte) bool { return now != nil }) })
}

// FieldAbsent limits a handler to objects that do not have a field, or have null.
func FieldAbsent(path string) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.filterField(path, func(now []byte) bool { return now == nil }) })
}

// FieldChanged limits a handler to objects in which a field is not what it was, or
// of which it is not known what they were. To be told when a field changes, say
// Field: it misses no change.
func FieldChanged(path string) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		names, err := object.ParsePath(path)
		if err != nil {
			s.addProblem("a field filter: %w", err)
			return
		}
		s.comparedFields = append(s.comparedFields, names)
		s.filters = append(s.filters, func(old, now *object.Object) bool {
			return old == nil || !bytes.Equal(old.Field(names...), now.Field(names...))
		})
	})
}

// filterField adds a filter by one field, as bytes; nil for none.
func (s *handlerSettings) filterField(path string, match func(now []byte) bool) {
	names, err := object.ParsePath(path)
	if err != nil {
		s.addProblem("a field filter: %w", err)
		return
	}
	s.filters = append(s.filters, func(_, now *object.Object) bool { return match(now.Field(names...)) })
}

// canonical is a value as JSON has it, for comparing.
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
