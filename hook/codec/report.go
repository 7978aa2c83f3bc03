package codec

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/hook"
)

// reportFields are what a response reports for the object.
func (r *reader) reportFields(events *[]hook.Event, conditions *[]hook.Condition, message *string) []field {
	return []field{
		{"events", limitedList(r, events, func(e *hook.Event) error { return r.event(e) })},
		{"conditions", limitedList(r, conditions, func(c *hook.Condition) error { return r.condition(c, *conditions) })},
		{"message", optional(r, message, func() error { return r.text(message) })},
	}
}

// event reads an event that may have more fields. Its type is Normal unless given.
func (r *reader) event(e *hook.Event, more ...field) error {
	e.Type = "Normal"
	err := r.fields(append([]field{{"type", &e.Type}, {"reason", &e.Reason}, {"message", &e.Message}}, more...)...)
	switch {
	case err != nil:
		return err
	case e.Type != "Normal" && e.Type != "Warning":
		return r.errorAt(".type", "must be Normal or Warning, is %q", shorten(e.Type))
	}
	return r.reason(e.Reason)
}

// condition reads the last of all conditions, which differs from the others by its type.
func (r *reader) condition(c *hook.Condition, all []hook.Condition) error {
	err := r.fields(
		field{"type", &c.Type},
		field{"status", &c.Status},
		field{"reason", &c.Reason},
		field{"message", &c.Message},
		// metav1.Condition serializes both always, so hooks send them. Setpoint sets them
		// itself.
		field{"lastTransitionTime", r.skip},
		field{"observedGeneration", r.skip},
	)
	switch {
	case err != nil:
		return err
	case c.Type == "":
		return r.errorAt(".type", "required")
	case len(validation.IsQualifiedName(c.Type)) > 0:
		return r.errorAt(".type", "%q: must be a word in CamelCase, such as Ready", shorten(c.Type))
	case slices.ContainsFunc(all[:len(all)-1], func(other hook.Condition) bool { return other.Type == c.Type }):
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
