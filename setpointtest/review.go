package setpointtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// ReviewResult is the response of a function of Mutate or Validate for an object of type
// T.
type ReviewResult[T any] struct {
	// Err is why there is no response: the failure policy would decide. If it is set, all
	// other fields are zero.
	Err error
	// Denial is nil if the change is allowed.
	Denial *hook.Denial
	// Object is the object to store, nil on deletion or denial. Mutated reports that the
	// function changed it.
	Object  *T
	Mutated bool
	// Warnings are shown to the user. Audit is written to the audit log.
	Warnings []string
	Audit    map[string]string
	// Events are recorded unless the change is a dry run.
	Events []hook.ObjectEvent
}

// Review calls a function of Mutate or Validate by its name, such as "inject", for the
// creation of an object. Options change the request: UpdatedFrom(old),
// Operation(setpoint.OperationDelete), AsUser(user), DryRun, Subresource. The test fails
// if there is no such function or the app is invalid.
//
// Review calls a mutating function again for its own result, as API servers may. The test
// fails if the function denies that or changes it.
func Review[T any](t testing.TB, app *setpoint.App, name string, object *T, options ...Option) ReviewResult[T] {
	t.Helper()
	reviewer, err := sdk.Of(app).Reviewer(name)
	if err != nil {
		t.Fatal(err)
	}
	b := newRequestBuilder(t, app, name, object, options)
	req := b.reviewRequest()
	response, err := withIndexes(t, b, func() (*hook.ReviewResponse, error) {
		response, err := reviewer.Admit(t.Context(), req)
		if err == nil && response.Object != nil {
			if wrong := checkIdempotent(t.Context(), reviewer, *req, response.Object); wrong != nil {
				t.Errorf("%s is not idempotent: asked again about its own result, it %v", name, wrong)
			}
		}
		return response, err
	})
	if err != nil {
		return ReviewResult[T]{Err: err}
	}
	result, err := toReviewResult[T](req, response)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// checkIdempotent calls the function for its result. The error describes a difference.
func checkIdempotent(ctx context.Context, reviewer hook.Admitter, req hook.ReviewRequest, result json.RawMessage) error {
	req.Object = result
	response, err := reviewer.Admit(ctx, &req)
	switch {
	case err != nil:
		return fmt.Errorf("fails: %w", err)
	case response.Denial != nil:
		return fmt.Errorf("refuses it: %s", response.Denial.Message)
	case response.Object == nil:
		return nil
	}
	differences := trigger.Compare(result, response.Object)
	if len(differences) == 0 {
		return nil
	}
	texts := lists.Map(differences, hook.FieldChange.String)
	return fmt.Errorf("changes %s", strings.Join(texts, ", "))
}

func (b *requestBuilder) reviewRequest() *hook.ReviewRequest {
	req := &hook.ReviewRequest{
		Webhook: b.Handler, UID: uid, Operation: b.operation, Subresource: b.subresource,
		APIVersion: b.apiVersion, Kind: b.kind, Namespace: b.Namespace, Name: b.Name,
		Object: b.Object, OldObject: b.PreviousState, User: b.user, DryRun: b.dryRun,
	}
	if b.operation == setpoint.OperationDelete {
		req.Object, req.OldObject = nil, b.Object
	}
	return req
}

func toReviewResult[T any](req *hook.ReviewRequest, response *hook.ReviewResponse) (ReviewResult[T], error) {
	r := ReviewResult[T]{
		Denial: response.Denial, Mutated: response.Object != nil,
		Warnings: response.Warnings, Audit: response.AuditAnnotations, Events: response.Events,
	}
	object := req.Object
	if r.Mutated {
		object = response.Object
	}
	if object == nil || r.Denial != nil {
		return r, nil
	}
	r.Object = new(T)
	if err := json.Unmarshal(object, r.Object); err != nil {
		return r, fmt.Errorf("read what is to be stored: %w", err)
	}
	return r, nil
}
