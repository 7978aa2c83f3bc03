package hook

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

func (r *reader) event() (Event, error) {
	e := Event{Type: "Normal"}
	if err := r.fields(r.eventFields(&e)...); err != nil {
		return e, err
	}
	return e, r.checkEvent(e)
}

func (r *reader) eventFields(e *Event) []field {
	return []field{{"type", r.text(&e.Type)}, {"reason", r.text(&e.Reason)}, {"message", r.text(&e.Message)}}
}

func (r *reader) checkEvent(e Event) error {
	if e.Type != "Normal" && e.Type != "Warning" {
		return r.errorAt(".type", "must be Normal or Warning, is %q", shorten(e.Type))
	}
	return r.reason(e.Reason)
}

// condition reads a condition that differs from the others by its type.
func (r *reader) condition(others []Condition) (Condition, error) {
	var c Condition
	err := r.fields(
		field{"type", r.text(&c.Type)},
		field{"status", r.text(&c.Status)},
		field{"reason", r.text(&c.Reason)},
		field{"message", r.text(&c.Message)},
		// metav1.Condition serializes both always, so hooks send them. Setpoint sets them
		// itself.
		field{"lastTransitionTime", r.skip},
		field{"observedGeneration", r.skip},
	)
	if err != nil {
		return c, err
	}
	return c, r.checkCondition(c, others)
}

func (r *reader) checkCondition(c Condition, others []Condition) error {
	switch {
	case c.Type == "":
		return r.errorAt(".type", "required")
	case len(validation.IsQualifiedName(c.Type)) > 0:
		return r.errorAt(".type", "%q: must be a word in CamelCase, such as Ready", shorten(c.Type))
	case slices.ContainsFunc(others, func(other Condition) bool { return other.Type == c.Type }):
		return r.errorAt(".type", "%q is given twice", c.Type)
	case c.Status == "":
		return r.errorAt(".status", "required")
	case c.Status != "True" && c.Status != "False" && c.Status != "Unknown":
		return r.errorAt(".status", "must be True, False or Unknown, is %q", shorten(c.Status))
	}
	return r.reason(c.Reason)
}

// reasonPattern and maxReason are metav1.Condition's limits for a reason.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

const maxReason = 1024

func (r *reader) reason(word string) error {
	switch {
	case word == "":
		return r.errorAt(".reason", "required")
	case len(word) > maxReason || !reasonPattern.MatchString(word):
		return r.errorAt(".reason", "%q: must be a word in CamelCase, such as QuotaExceeded", shorten(word))
	}
	return nil
}

// keyRules validate labels or annotations as the API server does.
type keyRules struct{ key, value func(string) []string }

var (
	labelRules      = keyRules{key: validation.IsQualifiedName, value: validation.IsValidLabelValue}
	annotationRules = keyRules{
		key:   func(key string) []string { return validation.IsQualifiedName(strings.ToLower(key)) },
		value: func(string) []string { return nil },
	}
)

// keys reads labels or annotations to set. A null value removes the key.
func (r *reader) keys(into *map[string]*string, rules keyRules) func() error { //nolint:gocritic // the reader sets it
	return optional(r, into, func() error {
		return r.members(func(name []byte) error {
			key := string(name)
			if wrong := rules.key(key); len(wrong) > 0 {
				return r.errorAt("", "invalid key: %s", wrong[0])
			}
			value, err := r.keyValue(rules)
			if *into == nil {
				*into = map[string]*string{}
			}
			(*into)[key] = value
			return err
		})
	})
}

func (r *reader) keyValue(rules keyRules) (*string, error) {
	if r.null() {
		return nil, r.skip()
	}
	value, err := r.string()
	if err != nil {
		return nil, err
	}
	if wrong := rules.value(value); len(wrong) > 0 {
		return nil, r.errorAt("", "invalid value: %s", wrong[0])
	}
	return &value, nil
}
