package environment

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
)

// condition is a condition to set.
type condition struct {
	name    string
	true    bool
	reason  string
	message string
}

// conditions returns the conditions of the status with some set.
func (s *stepper) conditions(set ...condition) []any {
	have, _ := s.status["conditions"].([]any)
	after := slices.Clone(have)
	for _, c := range set {
		if i := slices.IndexFunc(after, func(each any) bool { return nameOf(each) == c.name }); i >= 0 {
			after[i] = c.fields()
			continue
		}
		after = append(after, c.fields())
	}
	return after
}

// fields returns the condition as JSON. Time stands still.
func (c condition) fields() map[string]any {
	fields := map[string]any{"type": c.name, "status": "False", "lastTransitionTime": apiserver.Epoch.Format(time.RFC3339)}
	if c.true {
		fields["status"] = "True"
	}
	if c.reason != "" {
		fields["reason"] = c.reason
	}
	if c.message != "" {
		fields["message"] = c.message
	}
	return fields
}

func nameOf(each any) string {
	fields, _ := each.(map[string]any)
	return text(fields, "type")
}

// find returns a condition of the status; nil if there is none.
func (s *stepper) find(name string) map[string]any {
	list, _ := s.status["conditions"].([]any)
	for _, each := range list {
		if nameOf(each) == name {
			fields, _ := each.(map[string]any)
			return fields
		}
	}
	return nil
}

// isTrue reports whether a condition is true.
func (s *stepper) isTrue(name string) bool { return text(s.find(name), "status") == "True" }
