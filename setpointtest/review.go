package setpointtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
)

// ReviewResult is what a function of Mutate or Validate says about a change of an object
// of type T.
type ReviewResult[T any] struct {
	// Err is why there is no verdict: the failure policy would decide. Nothing else is
	// set then.
	Err error
	// Denial is the refusal, nil if the change is allowed.
	Denial *hook.Denial
	// Object is the object as it would be stored, nil on Delete and if it is refused;
	// Mutated says that the function has changed it.
	Object  *T
	Mutated bool
	// Warnings are shown to the user, and Audit is written to the audit log.
	Warnings []string
	Audit    map[string]string
	// Events are told at other objects, where the change is no dry run.
	Events []hook.ObjectEvent
}

// Review asks a function of Mutate or Validate, by a name such as "inject", once about
// an object that is to be created; or as options say: Was(old) for an update,
// Operation(setpoint.OperationDelete), AsUser(user), DryRun, Subresource. The test ends if there is no
// such function, or something is wrong with the app.
//
// What changes an object is asked again about its own result, as API servers may: if
// it refuses that or changes something more, the test fails.
func Review[T any](t testing.TB, app *setpoint.App, name string, object *T, options ...Option) ReviewResult[T] {
	t.Helper()
	reviewer, err := app.Reviewer(name)
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

// checkIdempotent asks about a result. The error says what the function does about it.
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
	differences := handle.Compare(result, response.Object)
	if len(differences) == 0 {
		return nil
	}
	var texts []string
	for _, one := range differences {
		texts = append(texts, fmt.Sprintf("%s from %s to %s", one.Path, orNothing(one.From), orNothing(one.To)))
	}
	return fmt.Errorf("changes %s", strings.Join(texts, ", "))
}

func orNothing(value json.RawMessage) string {
	if value == nil {
		return "nothing"
	}
	return string(value)
}

// reviewRequest is what happened, as a function is asked that may refuse it.
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

// toReviewResult is a verdict as it is shown to a test.
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

// Operation sets the operation to review. The default is OperationCreate, or
// OperationUpdate with UpdatedFrom.
func Operation(operation setpoint.Operation) Option {
	return func(b *requestBuilder) error {
		b.operation = operation
		return nil
	}
}

// AsUser has a change reviewed that this user wants.
func AsUser(user setpoint.User) Option {
	return func(b *requestBuilder) error {
		b.user = user
		return nil
	}
}

// DryRun has a change reviewed that will not be stored.
func DryRun() Option {
	return func(b *requestBuilder) error {
		b.dryRun = true
		return nil
	}
}

// Subresource has a change reviewed of a subresource, such as "status".
func Subresource(name string) Option {
	return func(b *requestBuilder) error {
		b.subresource = name
		return nil
	}
}
