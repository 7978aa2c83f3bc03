package setpointtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// Reviewed is what a function of Mutate or Validate says about a change of an object
// of type T.
type Reviewed[T any] struct {
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
	Events []hook.EventAt
}

// Review asks a function of Mutate or Validate, by a name such as "inject", once about
// an object that is to be created; or as options say: Was(old) for an update,
// Reason(setpoint.Delete), By(user), DryRun, Subresource. The test ends if there is no
// such function, or something is wrong with the app.
//
// What changes an object is asked again about its own result, as API servers may: if
// it refuses that or changes something more, the test fails.
func Review[T any](t testing.TB, app *setpoint.App, name string, object *T, options ...Option) Reviewed[T] {
	t.Helper()
	reviewer, err := app.Reviewer(name)
	if err != nil {
		t.Fatal(err)
	}
	n := prepared(t, app, name, object, options)
	asked := n.review()
	verdict, err := during(t, n, func() (*hook.Verdict, error) {
		verdict, err := reviewer.Admit(t.Context(), asked)
		if err == nil && verdict.Object != nil {
			if wrong := again(t.Context(), reviewer, *asked, verdict.Object); wrong != nil {
				t.Errorf("%s is not idempotent: asked again about its own result, it %v", name, wrong)
			}
		}
		return verdict, err
	})
	if err != nil {
		return Reviewed[T]{Err: err}
	}
	result, err := reviewed[T](asked, verdict)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// again asks about a result. The error says what the function does about it.
func again(ctx context.Context, reviewer hook.Admitter, asked hook.Review, result json.RawMessage) error {
	asked.Object = result
	verdict, err := reviewer.Admit(ctx, &asked)
	switch {
	case err != nil:
		return fmt.Errorf("fails: %w", err)
	case verdict.Denial != nil:
		return fmt.Errorf("refuses it: %s", verdict.Denial.Message)
	case verdict.Object == nil:
		return nil
	}
	differences := react.Compare(result, verdict.Object)
	if len(differences) == 0 {
		return nil
	}
	var texts []string
	for _, one := range differences {
		texts = append(texts, fmt.Sprintf("%s from %s to %s", one.Path, orNone(one.Old), orNone(one.New)))
	}
	return fmt.Errorf("changes %s", strings.Join(texts, ", "))
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "nothing"
	}
	return string(value)
}

// review is what happened, as a function is asked that may refuse it.
func (n *notice) review() *hook.Review {
	asked := &hook.Review{
		Webhook: n.Handler, UID: uid, Operation: hook.Operation(strings.ToUpper(string(n.Reason))), Subresource: n.subresource,
		APIVersion: n.apiVersion, Kind: n.kind, Namespace: n.Namespace, Name: n.Name,
		Object: n.Object, Old: n.Old, User: n.user, DryRun: n.dryRun,
	}
	if n.Reason == setpoint.Delete {
		asked.Object, asked.Old = nil, n.Object
	}
	return asked
}

// reviewed is a verdict as it is shown to a test.
func reviewed[T any](asked *hook.Review, verdict *hook.Verdict) (Reviewed[T], error) {
	r := Reviewed[T]{
		Denial: verdict.Denial, Mutated: verdict.Object != nil,
		Warnings: verdict.Warnings, Audit: verdict.Audit, Events: verdict.Events,
	}
	object := asked.Object
	if r.Mutated {
		object = verdict.Object
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

// By has a change reviewed that this user wants.
func By(user setpoint.User) Option {
	return func(n *notice) error {
		n.user = user
		return nil
	}
}

// DryRun has a change reviewed that will not be stored.
func DryRun() Option {
	return func(n *notice) error {
		n.dryRun = true
		return nil
	}
}

// Subresource has a change reviewed of a subresource, such as "status".
func Subresource(name string) Option {
	return func(n *notice) error {
		n.subresource = name
		return nil
	}
}
