package hook

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxListItems limits the events, and the conditions, of one response. More than that is
// a bug in the hook and would flood the API server.
const maxListItems = 100

// The types of an Event.
const (
	eventNormal  = "Normal"
	eventWarning = "Warning"
)

func (r *reader) event(into *[]Event) error {
	if len(*into) == maxListItems {
		return r.tooMany()
	}
	e := Event{Type: eventNormal}
	if err := r.members(func(name []byte) error { return r.eventMember(name, &e) }); err != nil {
		return err
	}
	if err := r.checkEvent(e); err != nil {
		return err
	}
	*into = append(*into, e)
	return nil
}

// eventMember reads one field of an event. others are additional fields of the caller's
// event type, listed in errors only.
func (r *reader) eventMember(name []byte, e *Event, others ...string) error {
	switch string(name) {
	case "type":
		return r.optionalString(&e.Type)
	case "reason":
		return r.optionalString(&e.Reason)
	case "message":
		return r.optionalString(&e.Message)
	}
	return r.rejectUnknown(name, append([]string{"type", "reason", "message"}, others...))
}

func (r *reader) checkEvent(e Event) error {
	if e.Type != eventNormal && e.Type != eventWarning {
		return r.errorAt(".type", "must be Normal or Warning, is %q", shorten(e.Type))
	}
	return r.reason(e.Reason)
}

func (r *reader) condition(into *[]Condition) error {
	if len(*into) == maxListItems {
		return r.tooMany()
	}
	var c Condition
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "type":
			return r.optionalString(&c.Type)
		case "status":
			return r.optionalString(&c.Status)
		case "reason":
			return r.optionalString(&c.Reason)
		case "message":
			return r.optionalString(&c.Message)
		case "lastTransitionTime", "observedGeneration":
			// metav1.Condition serializes both always, so hooks send them. Setpoint sets
			// them itself.
			return r.skip()
		}
		return r.rejectUnknown(name, []string{"type", "status", "reason", "message"})
	})
	if err != nil {
		return err
	}
	if err := r.checkCondition(c, *into); err != nil {
		return err
	}
	*into = append(*into, c)
	return nil
}

// tooMany reports an oversized list, at its last permitted item.
func (r *reader) tooMany() error {
	return r.errorAt("", "more than %d items", maxListItems)
}

func (r *reader) checkCondition(c Condition, others []Condition) error {
	if err := r.conditionType(c.Type, others); err != nil {
		return err
	}
	switch c.Status {
	case "True", "False", "Unknown":
		return r.reason(c.Reason)
	case "":
		return r.errorAt(".status", "required")
	}
	return r.errorAt(".status", "must be True, False or Unknown, is %q", shorten(c.Status))
}

func (r *reader) conditionType(name string, others []Condition) error {
	if name == "" {
		return r.errorAt(".type", "required")
	}
	if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
		return r.errorAt(".type", "%q: must be a word in CamelCase, such as Ready", shorten(name))
	}
	for _, other := range others {
		if other.Type == name {
			return r.errorAt(".type", "%q is given twice", name)
		}
	}
	return nil
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

// stringMap reads labels or annotations to set. A null value removes the key.
func (r *reader) stringMap(rules keyRules) (values map[string]*string, err error) {
	if r.null() {
		return nil, r.skip()
	}
	err = r.members(func(name []byte) error {
		key := string(name)
		if wrong := rules.key(key); len(wrong) > 0 {
			return r.errorAt("", "invalid key: %s", wrong[0])
		}
		value, err := r.stringMapValue(rules)
		if values == nil {
			values = map[string]*string{}
		}
		values[key] = value
		return err
	})
	return values, err
}

func (r *reader) stringMapValue(rules keyRules) (*string, error) {
	if r.null() {
		return nil, r.skip()
	}
	var value string
	if err := r.string(&value); err != nil {
		return nil, err
	}
	if wrong := rules.value(value); len(wrong) > 0 {
		return nil, r.errorAt("", "invalid value: %s", wrong[0])
	}
	return &value, nil
}
