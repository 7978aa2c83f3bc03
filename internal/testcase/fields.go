package testcase

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/difference"
)

// The fields of responses, by the kind of hook. Those of errors and of writes are in all of them.
var (
	commonFields = []string{fieldError}
	syncFields   = []string{"children", "status", "resyncAfterSeconds", "finalized", "events", "conditions", "message",
		fieldLogicVersion, fieldWrites}
	decoratorFields = []string{"attachments", "status", "resyncAfterSeconds", "finalized", "labels", "annotations", "events", "conditions",
		"message", fieldLogicVersion, fieldWrites}
	customizeFields = []string{"relatedResources"}
	handlerFields   = []string{"patch", "status", "apply", "delete", "events", "conditions", "message", fieldRetryAfter, "progress",
		"applicable", "sideEffects", "finished", fieldCalled}
	reviewFields = []string{"allowed", "message", "reason", "code", "object", "patch", "jsonPatch", "warnings", "auditAnnotations",
		"events"}
)

const (
	fieldError = difference.FieldError
	// fieldCalled is false if the condition of a handler is.
	fieldCalled = "called"
	// fieldRetryAfter is when a handler is called again.
	fieldRetryAfter = "retryAfterSeconds"
	// fieldLogicVersion names the version of the code.
	fieldLogicVersion = difference.FieldLogicVersion
	// fieldWrites are what Setpoint would write of the children, such as "create ConfigMap example".
	fieldWrites = "writes"
)

// expectable are the fields that a case of the target may expect.
func (t *target) expectable() []string {
	var own []string
	switch {
	case t.handle != nil:
		own = handlerFields
	case t.webhook != nil:
		own = reviewFields
	case t.hook == hookCustomize:
		own = customizeFields
	case t.isDecorator():
		own = decoratorFields
	default:
		own = syncFields
	}
	return slices.Concat(own, commonFields)
}

// requestable are the fields that a request of the target may have.
func (t *target) requestable() []string {
	switch {
	case t.handle != nil:
		return []string{"controller", "object", "reason", "previousState", "owned", "attempt", "firstAttempt", "progress", "deleted",
			"event", "daemon", "dryRun"}
	case t.webhook != nil:
		return []string{"controller", "uid", "operation", "resource", "subresource", "object", "oldObject", "user", "dryRun"}
	case t.hook == hookCustomize:
		return []string{"controller", "parent", "object"}
	case t.isDecorator():
		return []string{"controller", "object", "attachments", "related", "finalizing"}
	}
	return []string{"controller", "parent", "children", "related", "finalizing"}
}

// given returns the fields that the case has in request or expect.
func (c *Case) given(part string) map[string]any {
	fields, _ := c.Document.Object.Object[part].(map[string]any)
	return fields
}

// checkFields returns an error for fields that the hook of the case does not have.
func (c *Case) checkFields() error {
	var problems []error
	for _, part := range []struct {
		name  string
		known []string
	}{{"request", c.target.requestable()}, {"expect", c.target.expectable()}} {
		for _, field := range slices.Sorted(maps.Keys(c.given(part.name))) {
			if !slices.Contains(part.known, field) {
				problems = append(problems, fmt.Errorf("%s.%s: unknown field of a case of %s %s, which has %s",
					part.name, field, c.target.controller, c.target.hook, strings.Join(part.known, ", ")))
			}
		}
	}
	return errors.Join(problems...)
}
