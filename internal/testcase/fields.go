package testcase

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/difference"
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

// known are the fields that the request and the response of the target may have.
func (t *target) known() (request, response []string) {
	switch {
	case t.handle != nil:
		return strings.Fields("controller object reason previousState owned attempt firstAttempt progress deleted event daemon dryRun"),
			strings.Fields("patch status apply delete events conditions message retryAfterSeconds progress applicable sideEffects " +
				"finished " + fieldCalled)
	case t.webhook != nil:
		return strings.Fields("controller uid operation resource subresource object oldObject user dryRun"),
			strings.Fields("allowed message reason code object patch jsonPatch warnings auditAnnotations events")
	case t.hook == hookCustomize:
		return strings.Fields("controller parent object"), []string{"relatedResources"}
	case t.isDecorator():
		return strings.Fields("controller object attachments related finalizing"),
			strings.Fields("attachments status resyncAfterSeconds finalized labels annotations events conditions message " +
				fieldLogicVersion + " " + fieldWrites)
	}
	return strings.Fields("controller parent children related finalizing"),
		strings.Fields("children status resyncAfterSeconds finalized events conditions message " + fieldLogicVersion + " " + fieldWrites)
}

// given returns the fields that the case has in request or expect.
func (c *Case) given(part string) map[string]any {
	fields, _ := c.Document.Object.Object[part].(map[string]any)
	return fields
}

// checkFields returns an error for fields that the hook of the case does not have.
func (c *Case) checkFields() error {
	var problems []error
	request, response := c.target.known()
	for _, part := range []struct {
		name  string
		known []string
	}{{"request", request}, {"expect", append(response, fieldError)}} {
		for _, field := range slices.Sorted(maps.Keys(c.given(part.name))) {
			if !slices.Contains(part.known, field) {
				problems = append(problems, fmt.Errorf("%s.%s: unknown field of a case of %s %s, which has %s",
					part.name, field, c.target.controller, c.target.hook, strings.Join(part.known, ", ")))
			}
		}
	}
	return errors.Join(problems...)
}
