// Package setpointtest calls the handlers of an app by hand: with an object made
// up by a test, and no cluster.
//
// Here live making up what happened, and reading what a handler wants written.
// What must not: a likeness of an API server; what one makes of a patch, an apply
// or a schema is for a test with a real one. Tests of programs call.
package setpointtest

import (
	"encoding/json"
	"slices"
	"strings"
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
	// Requeue is when the handler wants to be called again, hook.Immediately for at once; 0
	// if it is done.
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
	n := prepared(t, app, name, object, slices.Insert(slices.Clone(options), 0, changesOf(handler)))
	answer, err := during(t, n, func() (*hook.Answer, error) { return handler.Handle(t.Context(), &n.Notice) })
	if err != nil {
		return Result[T]{Err: err}
	}
	return mustRead[T](t, n.Object, answer)
}

// Family is what a function of Compose says should be of a parent of type T.
type Family[T any] struct {
	// Err is what it returned. Nothing is written then, and nothing else is set.
	Err error
	// Parent is the parent with the status that it should have.
	Parent *T
	// Children are those that should be, in order.
	Children []setpoint.Unstructured
	// Finalized says of Finalize that the parent may go.
	Finalized bool
	// Events, Conditions and Message are told of the parent.
	Events     []hook.Event
	Conditions []hook.Condition
	Message    string
	// Requeue is when the function wants to be called again; 0 if it is not.
	Requeue time.Duration
}

// Ask calls a function of Compose, "sync" or "finalize", once for a parent, which
// is made up as in Handle; Owned are its children.
func Ask[T any](t testing.TB, app *setpoint.App, name string, parent *T, options ...Option) Family[T] {
	t.Helper()
	asked, err := app.Hook(name)
	if err != nil {
		t.Fatal(err)
	}
	n := prepared(t, app, name, parent, options)
	request := &hook.Request{
		Parent: n.Object, ParentNamespace: n.Namespace, Children: n.Owned, Related: n.related,
		Finalizing: strings.HasSuffix(name, "finalize"),
	}
	response, err := during(t, n, func() (*hook.Response, error) { return asked.Call(t.Context(), request) })
	if err != nil {
		return Family[T]{Err: err}
	}
	// A response is an answer whose children are applied and whose status is whole.
	answer := &hook.Answer{}
	for _, child := range response.Children {
		answer.Apply = append(answer.Apply, hook.Applied{Object: child})
	}
	stored, err := withStatus(n.Object, response.Status)
	if err != nil {
		t.Fatal(err)
	}
	r := mustRead[T](t, stored, answer)
	f := Family[T]{
		Parent: r.Object, Finalized: response.Finalized,
		Events: response.Events, Conditions: response.Conditions, Message: response.Message, Requeue: response.ResyncAfter,
	}
	for _, child := range r.Applied {
		f.Children = append(f.Children, child.Unstructured)
	}
	return f
}

// during makes a call while the indexes hold what it is to find in them.
func during[R any](t testing.TB, n *notice, call func() (R, error)) (R, error) {
	t.Helper()
	release, err := n.fill()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	return call()
}

// changesOf is how the changes of an object appear to a handler.
func changesOf(h hook.Handler) Option {
	return func(n *notice) error {
		if one, says := h.(interface {
			Changes(old, now json.RawMessage) ([]hook.FieldChange, error)
		}); says {
			n.changes = one.Changes
		}
		return nil
	}
}

// prepared is what happened to an object, as options say.
func prepared(t testing.TB, app *setpoint.App, name string, object any, options []Option) *notice {
	t.Helper()
	n := &notice{app: app, Notice: hook.Notice{Handler: name, Reason: setpoint.Create, Since: time.Now()}}
	n.Reader = &n.stored
	if err := n.about(object); err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if err := o(n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func mustRead[T any](t testing.TB, object json.RawMessage, answer *hook.Answer) Result[T] {
	t.Helper()
	result, err := read[T](object, answer)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
