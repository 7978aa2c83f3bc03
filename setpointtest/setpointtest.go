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
	b := newRequestBuilder(t, app, name, object, slices.Insert(slices.Clone(options), 0, withDiff(handler)))
	resp, err := withIndexes(t, b, func() (*hook.HandlerResponse, error) { return handler.Handle(t.Context(), &b.HandlerRequest) })
	if err != nil {
		return Result[T]{Err: err}
	}
	return mustResult[T](t, b.Object, resp)
}

// ComposeResult is what a function of Compose says should be of a parent of type T.
type ComposeResult[T any] struct {
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

// Compose calls a function of Compose, "sync" or "finalize", once for a parent, which
// is made up as in Handle; Owned are its children.
func Compose[T any](t testing.TB, app *setpoint.App, name string, parent *T, options ...Option) ComposeResult[T] {
	t.Helper()
	req, err := app.Hook(name)
	if err != nil {
		t.Fatal(err)
	}
	b := newRequestBuilder(t, app, name, parent, options)
	request := &hook.Request{
		Parent: b.Object, ParentNamespace: b.Namespace, Children: b.Owned, Related: b.related,
		Finalizing: strings.HasSuffix(name, "finalize"),
	}
	response, err := withIndexes(t, b, func() (*hook.Response, error) { return req.Call(t.Context(), request) })
	if err != nil {
		return ComposeResult[T]{Err: err}
	}
	// A response is an answer whose children are applied and whose status is whole.
	resp := &hook.HandlerResponse{}
	for _, child := range response.Children {
		resp.Apply = append(resp.Apply, hook.AppliedObject{Object: child})
	}
	stored, err := withStatus(b.Object, response.Status)
	if err != nil {
		t.Fatal(err)
	}
	r := mustResult[T](t, stored, resp)
	f := ComposeResult[T]{
		Parent: r.Object, Finalized: response.Finalized,
		Events: response.Events, Conditions: response.Conditions, Message: response.Message, Requeue: response.ResyncAfter,
	}
	for _, child := range r.Applied {
		f.Children = append(f.Children, child.Unstructured)
	}
	return f
}

// withIndexes makes a call while the indexes hold what it is to find in them.
func withIndexes[R any](t testing.TB, b *requestBuilder, call func() (R, error)) (R, error) {
	t.Helper()
	release, err := b.fillIndexes()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	return call()
}

// withDiff is how the changes of an object appear to a handler.
func withDiff(h hook.Handler) Option {
	return func(b *requestBuilder) error {
		if one, ok := h.(interface {
			Changes(old, now json.RawMessage) ([]hook.FieldChange, error)
		}); ok {
			b.diff = one.Changes
		}
		return nil
	}
}

// newRequestBuilder is what happened to an object, as options say.
func newRequestBuilder(t testing.TB, app *setpoint.App, name string, object any, options []Option) *requestBuilder {
	t.Helper()
	b := &requestBuilder{app: app, operation: setpoint.OperationCreate, HandlerRequest: hook.HandlerRequest{Handler: name, Reason: setpoint.ReasonCreate, Since: time.Now()}}
	b.Reader = &b.stored
	if err := b.setObject(object); err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if err := o(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func mustResult[T any](t testing.TB, object json.RawMessage, resp *hook.HandlerResponse) Result[T] {
	t.Helper()
	result, err := toResult[T](object, resp)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
