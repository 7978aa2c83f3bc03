// Package setpointtest calls the handlers of an app by hand: with an object made
// up by a test, and no cluster.
//
// Here live making up what happened, and reading what a handler wants written.
// What must not: a likeness of an API server; what one makes of a patch, an apply
// or a schema is for a test with a real one. Tests of programs call.
package setpointtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
)

// Result is what a handler did about an object of type T.
type Result[T any] struct {
	// Err is what it returned. Nothing is written then, and nothing else is set.
	Err error
	// Object is the object with what the handler changed of it.
	Object *T
	// Patch and Status are the merge patches of the object and of its status; nil
	// if nothing is to be changed.
	Patch, Status map[string]any
	// Applied are the objects to apply, in order.
	Applied []Applied
	// Deleted says what to delete.
	Deleted []hook.Deletion
	// Events, Conditions and Message are told of the object.
	Events     []hook.Event
	Conditions []hook.Condition
	Message    string
	// Requeue is when the handler wants to be told again; 0 if it is done.
	Requeue time.Duration
}

// Applied is one object to apply.
type Applied struct {
	setpoint.Unstructured

	// Unowned says that the handled object does not own it.
	Unowned bool
}

// As reads the object as one with a Go type; the test ends if that cannot be.
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

// Handle calls the handler of a name, such as "publish", once for an object. The
// test ends if there is no such handler, or something is wrong with the app; an
// error of the handler is in the result.
//
// The reason is Create unless an option says otherwise; the object is as given,
// with its apiVersion and kind, and with a UID if it has none.
func Handle[T any](t testing.TB, app *setpoint.App, name string, object *T, options ...Option) Result[T] {
	t.Helper()
	handler, err := app.Handler(name)
	if err != nil {
		t.Fatal(err)
	}
	n := &notice{app: app, Notice: hook.Notice{Handler: name, Reason: setpoint.Create}}
	if err := n.about(object); err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if err := o(n); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := handler.Handle(t.Context(), &n.Notice)
	if err != nil {
		return Result[T]{Err: err}
	}
	result, err := read[T](n.Object, answer)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
