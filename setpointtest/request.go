package setpointtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Option configures a request.
type Option func(*requestBuilder) error

// set returns an option that cannot fail.
func set(do func(*requestBuilder)) Option {
	return func(b *requestBuilder) error {
		do(b)
		return nil
	}
}

// requestBuilder builds a request.
type requestBuilder struct {
	hook.HandlerRequest

	app *setpoint.App
	// diff returns the watched changes of a handler; nil for other functions.
	diff    func(old, now json.RawMessage) ([]hook.FieldChange, error)
	related []hook.Group
	stored  storedObjects
	// indexed are objects as JSON.
	indexed []json.RawMessage
	// apiVersion and kind are those of the object.
	apiVersion, kind string
	// The following fields are for reviews.
	operation   setpoint.Operation
	user        setpoint.User
	dryRun      bool
	subresource string
}

func newRequestBuilder(t testing.TB, app *setpoint.App, name string, object any, options []Option) *requestBuilder {
	t.Helper()
	b := &requestBuilder{app: app, operation: setpoint.OperationCreate, HandlerRequest: hook.HandlerRequest{Handler: name,
		Reason: setpoint.ReasonCreate, Since: time.Now()}}
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

// uid is the UID of objects without one.
const uid = "5e7b0147-0000-4000-8000-000000000001"

func (b *requestBuilder) setObject(o any) error {
	u, err := b.toUnstructured(o)
	if err != nil {
		return err
	}
	u.SetName(cmp.Or(u.GetName(), "test"))
	u.SetUID(cmp.Or(u.GetUID(), uid))
	b.Namespace, b.Name = u.GetNamespace(), u.GetName()
	b.apiVersion, b.kind = u.GetAPIVersion(), u.GetKind()
	b.Object, err = u.MarshalJSON()
	return err
}

// toUnstructured adds the apiVersion and kind.
func (b *requestBuilder) toUnstructured(o any) (*unstructured.Unstructured, error) {
	kind, err := sdk.Of(b.app).KindOf(o)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write the %s as JSON: %w", kind.Name, err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return nil, fmt.Errorf("write the %s as JSON: %w", kind.Name, err)
	}
	u.SetAPIVersion(kind.APIVersion)
	u.SetKind(kind.Name)
	return u, nil
}

// fieldsOf returns an object with its kind.
func fieldsOf(app *setpoint.App, o any) (map[string]any, error) {
	b := &requestBuilder{app: app}
	u, err := b.toUnstructured(o)
	if err != nil {
		return nil, err
	}
	return u.Object, nil
}

// withIndexes runs a call with filled indexes.
func withIndexes[R any](t testing.TB, b *requestBuilder, call func() (R, error)) (R, error) {
	t.Helper()
	if b.indexed != nil {
		release, err := sdk.Of(b.app).FillIndexes(b.indexed...)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	return call()
}

// Reason sets the reason of the call.
func Reason(reason setpoint.Reason) Option {
	return set(func(b *requestBuilder) { b.Reason = reason })
}

// Attempt sets the number of failed attempts.
func Attempt(attempt int) Option {
	return set(func(b *requestBuilder) { b.Attempt = attempt })
}

// Steps sets the steps of Call.Step that earlier calls have completed.
func Steps(names ...string) Option {
	return func(b *requestBuilder) (err error) {
		b.Progress, err = json.Marshal(map[string]any{"steps": names})
		return err
	}
}

// Gone calls the handler for the deletion of the object.
func Gone() Option {
	return set(func(b *requestBuilder) { b.Deleted, b.Reason, b.Event = true, setpoint.ReasonEvent, hook.EventDeleted })
}

// Owned sets the objects that the object owns, or the children of a parent.
func Owned(objects ...any) Option {
	return func(b *requestBuilder) error { return b.addObjects(&b.Owned, objects) }
}

// Related sets the objects that Customize selected.
func Related(objects ...any) Option {
	return func(b *requestBuilder) error { return b.addObjects(&b.related, objects) }
}

// Stored sets the objects that Call.List returns.
func Stored(objects ...any) Option {
	return func(b *requestBuilder) error { return b.addObjects((*[]hook.Group)(&b.stored), objects) }
}

// Indexed fills the indexes of the app for the call, as far as the Labels and Namespaces
// of the kinds select the objects. The default is empty indexes. Concurrent calls of one
// app wait for each other.
func Indexed(objects ...any) Option {
	return func(b *requestBuilder) error {
		var groups []hook.Group
		if err := b.addObjects(&groups, objects); err != nil {
			return err
		}
		for _, group := range groups {
			for _, entry := range group.Objects {
				b.indexed = append(b.indexed, entry.Object)
			}
		}
		return nil
	}
}

// storedObjects is a hook.Reader of test objects.
type storedObjects []hook.Group

func (s *storedObjects) List(_ context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
	found := hook.Group{APIVersion: apiVersion, Kind: kind}
	matches, err := labels.Parse(selector)
	if err != nil {
		return found, err
	}
	for _, group := range *s {
		if group.APIVersion != apiVersion || group.Kind != kind {
			continue
		}
		for _, entry := range group.Objects {
			var o struct{ Metadata struct{ Labels labels.Set } }
			if err := json.Unmarshal(entry.Object, &o); err != nil {
				return found, err
			}
			if (namespace == "" || entry.Namespace == namespace) && matches.Matches(o.Metadata.Labels) {
				found.Objects = append(found.Objects, entry)
			}
		}
	}
	return found, nil
}

// Since sets since when the watched fields have not changed. The default is now.
func Since(at time.Time) Option {
	return set(func(b *requestBuilder) { b.Since = at })
}

// addObjects adds objects to the groups of their kinds.
func (b *requestBuilder) addObjects(groups *[]hook.Group, objects []any) error {
	for _, o := range objects {
		u, err := b.toUnstructured(o)
		if err != nil {
			return err
		}
		data, err := u.MarshalJSON()
		if err != nil {
			return err
		}
		entry := hook.Entry{Namespace: u.GetNamespace(), Name: u.GetName(), Object: data}
		i := slices.IndexFunc(*groups, func(g hook.Group) bool { return g.APIVersion == u.GetAPIVersion() && g.Kind == u.GetKind() })
		if i < 0 {
			i = len(*groups)
			*groups = append(*groups, hook.Group{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()})
		}
		(*groups)[i].Objects = append((*groups)[i].Objects, entry)
	}
	return nil
}

// UpdatedFrom calls the handler for an update of an object from this state. Call.Changes
// has the watched fields, as on a cluster: see setpoint.Field.
func UpdatedFrom(old any) Option {
	return func(b *requestBuilder) error {
		u, err := b.toUnstructured(old)
		if err != nil {
			return err
		}
		u.SetNamespace(b.Namespace)
		u.SetName(b.Name)
		u.SetUID(cmp.Or(u.GetUID(), uid))
		b.Reason, b.operation = setpoint.ReasonUpdate, setpoint.OperationUpdate
		if b.PreviousState, err = u.MarshalJSON(); err != nil {
			return err
		}
		if b.diff != nil {
			b.Changes, err = b.diff(b.PreviousState, b.Object)
		}
		return err
	}
}

// Operation sets the operation to review. The default is OperationCreate, or
// OperationUpdate with UpdatedFrom.
func Operation(operation setpoint.Operation) Option {
	return set(func(b *requestBuilder) { b.operation = operation })
}

// AsUser sets the user who requests the change.
func AsUser(user setpoint.User) Option {
	return set(func(b *requestBuilder) { b.user = user })
}

// DryRun makes the change a dry run.
func DryRun() Option {
	return set(func(b *requestBuilder) { b.dryRun = true })
}

// Subresource sets the changed subresource, such as "status".
func Subresource(name string) Option {
	return set(func(b *requestBuilder) { b.subresource = name })
}
