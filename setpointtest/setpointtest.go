// Package setpointtest calls the functions of an app in tests, without a cluster.
//
// It makes requests from test objects and decodes the responses. It does not simulate an
// API server: test the effects of patches, apply and schemas with a real one. Tests of Go
// programs use it.
package setpointtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Handle calls the handler of a name, such as "publish", for an object. The test fails if
// there is no such handler or the app is invalid; an error of the handler is in the
// result.
//
// The default reason is ReasonCreate. Handle sets the apiVersion, the kind and the UID of
// the object if they are missing.
func Handle[T any](t testing.TB, app *setpoint.App, name string, object *T, options ...Option) Result[T] {
	t.Helper()
	handler, err := sdk.Of(app).Handler(name)
	if err != nil {
		t.Fatal(err)
	}
	diff := set(func(b *requestBuilder) { b.diff = handler.Changes })
	b := newRequestBuilder(t, app, name, object, slices.Insert(slices.Clone(options), 0, diff))
	resp, err := withIndexes(t, b, func() (*hook.HandlerResponse, error) { return handler.Handle(t.Context(), &b.HandlerRequest) })
	if err != nil {
		return Result[T]{Err: err}
	}
	return mustResult[T](t, b.Object, resp)
}

// ComposeResult is the response of a function of Compose for a parent of type T.
type ComposeResult[T any] struct {
	// Err is the error of the function. If it is set, Setpoint writes nothing, and all
	// other fields are zero.
	Err error
	// Parent is the parent with the desired status.
	Parent *T
	// Children are the desired children, in order.
	Children []setpoint.Unstructured
	// Finalized reports that Finalize releases the parent.
	Finalized bool
	// Events, Conditions and Message are reported for the parent.
	Events     []hook.Event
	Conditions []hook.Condition
	Message    string
	// Requeue is when to call the function again, or 0.
	Requeue time.Duration
}

// Compose calls a function of setpoint.Compose, "sync" or "finalize", for a parent. The
// option Owned sets its observed children.
func Compose[T any](t testing.TB, app *setpoint.App, name string, parent *T, options ...Option) ComposeResult[T] {
	t.Helper()
	req, err := sdk.Of(app).Hook(name)
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
	// Children are like applied objects, and the status is whole.
	resp := &hook.HandlerResponse{Apply: lists.Map(response.Children, func(child json.RawMessage) hook.AppliedObject {
		return hook.AppliedObject{Object: child}
	})}
	stored, err := withStatus(b.Object, response.Status)
	if err != nil {
		t.Fatal(err)
	}
	r := mustResult[T](t, stored, resp)
	return ComposeResult[T]{
		Parent: r.Object, Finalized: response.Finalized,
		Children: lists.Map(r.Applied, func(child Applied) setpoint.Unstructured { return child.Unstructured }),
		Events:   response.Events, Conditions: response.Conditions, Message: response.Message, Requeue: response.ResyncAfter,
	}
}

// HandledBy returns the handled objects that setpoint.Watches calls handlers for when an object
// changes, such as a Secret. The option Indexed sets what is in the indexes. An object that the
// Labels or Namespaces of its kind do not select has none. The test fails if the app watches no
// such objects.
func HandledBy(t testing.TB, app *setpoint.App, related any, options ...Option) []types.NamespacedName {
	t.Helper()
	b := newRequestBuilder(t, app, "", related, options)
	names, err := withIndexes(t, b, func() ([]types.NamespacedName, error) { return sdk.Of(app).HandledBy(b.Object) })
	if err != nil {
		t.Fatal(err)
	}
	return names
}
