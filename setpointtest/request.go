package setpointtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
)

// Option says more about what happened to an object.
type Option func(*requestBuilder) error

// requestBuilder is a hook.Notice in the making.
type requestBuilder struct {
	hook.HandlerRequest

	app *setpoint.App
	// diff says how what the handler watches of an object differs; nil for what is
	// no handler.
	diff    func(old, now json.RawMessage) ([]hook.FieldChange, error)
	related []hook.Group
	stored  storedObjects
	// indexed are objects as JSON.
	indexed []json.RawMessage
	// apiVersion and kind are the object's.
	apiVersion, kind string
	// The rest is for reviews alone.
	operation   setpoint.Operation
	user        setpoint.User
	dryRun      bool
	subresource string
}

// uid is that of objects which were given none.
const uid = "5e7b0147-0000-4000-8000-000000000001"

// setObject says which object it is.
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

// toUnstructured is an object with its apiVersion and kind.
func (b *requestBuilder) toUnstructured(o any) (*unstructured.Unstructured, error) {
	apiVersion, kind, err := b.app.KindOf(o)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write the %s as JSON: %w", kind, err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return nil, fmt.Errorf("write the %s as JSON: %w", kind, err)
	}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u, nil
}

// Reason calls the handler for a reason.
func Reason(reason setpoint.Reason) Option {
	return func(b *requestBuilder) error {
		b.Reason = reason
		return nil
	}
}

// Attempt says how often the call has failed already.
func Attempt(attempt int) Option {
	return func(b *requestBuilder) error {
		b.Attempt = attempt
		return nil
	}
}

// Gone calls the handler for the event of the object's end.
func Gone() Option {
	return func(b *requestBuilder) error {
		b.Deleted, b.Reason = true, setpoint.ReasonEvent
		return nil
	}
}

// Owned are objects that the object owns: of a parent, its children.
func Owned(objects ...any) Option {
	return func(b *requestBuilder) error { return b.addObjects(&b.Owned, objects) }
}

// Related are objects that Customize asked for.
func Related(objects ...any) Option {
	return func(b *requestBuilder) error { return b.addObjects(&b.related, objects) }
}

// Stored are objects that Call.List finds.
func Stored(objects ...any) Option {
	return func(b *requestBuilder) error { return b.addObjects((*[]hook.Group)(&b.stored), objects) }
}

// Indexed are objects that the app's indexes of their kinds hold during the call, as
// far as the Labels and Namespaces of those kinds select them; without, they are empty.
// Calls with it, of one app, wait for each other.
func Indexed(objects ...any) Option {
	return func(b *requestBuilder) error {
		for _, o := range objects {
			u, err := b.toUnstructured(o)
			if err != nil {
				return err
			}
			data, err := u.MarshalJSON()
			if err != nil {
				return err
			}
			b.indexed = append(b.indexed, data)
		}
		return nil
	}
}

// fillIndexes has the indexes hold what the call is to find in them.
func (b *requestBuilder) fillIndexes() (release func(), err error) {
	if b.indexed == nil {
		return func() {}, nil
	}
	return b.app.FillIndexes(b.indexed...)
}

// storedObjects is a hook.Reader of objects that a test has thought of.
type storedObjects []hook.Group

// List finds those that match.
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

// Since says since when what the handler watches is as it is; without, since now.
func Since(at time.Time) Option {
	return func(b *requestBuilder) error {
		b.Since = at
		return nil
	}
}

// addObjects puts objects into the groups of their kinds.
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

// UpdatedFrom calls the handler for an update of an object that was like that before. As on a
// cluster, Call.Changes are those of the fields that the handler watches: see
// setpoint.Field.
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
