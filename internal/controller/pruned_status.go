package controller

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// PrunedRetry is how long a field of the status waits that the API server did not store: nothing tells when the schema
// of the kind has it.
const PrunedRetry = 10 * time.Minute

// ReportPruned sends an event, once, about a field of the status that the API server did not store; "" for none.
func (r *Run) ReportPruned(field string) {
	if field == "" {
		return
	}
	r.SendOnce(hook.Event{
		Type: Warning, Reason: ReasonStatusPruned,
		Message: "status." + field + " was not stored: the schema of " + r.Stored.Kind() +
			" does not have the field; add it to the CustomResourceDefinition, or do not return it",
	})
}
