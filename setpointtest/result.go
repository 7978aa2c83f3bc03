package setpointtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Result is the response of a handler for an object of type T.
type Result[T any] struct {
	// Err is the error of the handler. If it is set, Setpoint writes nothing, and all
	// other fields are zero.
	Err error
	// Object is the object with the changes of the handler.
	Object *T
	// Patch and Status are the merge patches of the object and its status, nil without
	// changes.
	Patch, Status map[string]any
	// Applied are the objects to apply, in order.
	Applied []Applied
	// Deleted are the requested deletions.
	Deleted []hook.Deletion
	// Events, Conditions and Message are reported for the object.
	Events     []hook.Event
	Conditions []hook.Condition
	Message    string
	// Requeue is when to call the handler again, hook.Immediately for at once, or 0.
	Requeue time.Duration
	// Steps are the completed steps of Call.Step, if the handler is to be called for the next one.
	Steps []string
}

// Applied is one object to apply.
type Applied struct {
	setpoint.Unstructured

	// Unowned reports that the handled object does not own it.
	Unowned bool
}

// As decodes the object into a Go type. The test fails if that is not possible.
func (a Applied) As(t testing.TB, into any) {
	t.Helper()
	data, err := json.Marshal(a.Object)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("read the applied %s %s as %T: %v", a.GetKind(), a.GetName(), into, err)
	}
}

func mustResult[T any](t testing.TB, object json.RawMessage, resp *hook.HandlerResponse) Result[T] {
	t.Helper()
	result, err := toResult[T](object, resp)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func toResult[T any](stored json.RawMessage, resp *hook.HandlerResponse) (Result[T], error) {
	r := Result[T]{
		Object: new(T), Deleted: resp.Delete, Events: resp.Events, Conditions: resp.Conditions,
		Message: resp.Message, Requeue: resp.RetryAfter,
	}
	if resp.Progress != nil {
		var progress struct{ Steps []string }
		if err := json.Unmarshal(resp.Progress, &progress); err != nil {
			return r, fmt.Errorf("read the progress: %w", err)
		}
		r.Steps = progress.Steps
	}
	patched := map[string]any{}
	for _, one := range []struct {
		from json.RawMessage
		into *map[string]any
	}{{resp.Patch, &r.Patch}, {resp.Status, &r.Status}, {stored, &patched}} {
		if one.from == nil {
			continue
		}
		if err := utiljson.Unmarshal(one.from, one.into); err != nil {
			return r, fmt.Errorf("read what the handler wants written: %w", err)
		}
	}
	patched = object.MergePatch(patched, r.Patch)
	if r.Status != nil {
		patched = object.MergePatch(patched, map[string]any{"status": r.Status})
	}
	for _, one := range resp.Apply {
		a := Applied{Unowned: one.Unowned}
		if err := utiljson.Unmarshal(one.Object, &a.Object); err != nil {
			return r, fmt.Errorf("read an applied object: %w", err)
		}
		r.Applied = append(r.Applied, a)
	}
	data, err := json.Marshal(patched)
	if err == nil {
		err = json.Unmarshal(data, r.Object)
	}
	return r, err
}

// withStatus replaces the status of an object; nil removes it.
func withStatus(stored, status json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(stored, &members); err != nil {
		return nil, err
	}
	delete(members, "status")
	if status != nil {
		members["status"] = status
	}
	return json.Marshal(members)
}
