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
type Option func(*notice) error

// notice is a hook.Notice in the making.
type notice struct {
	hook.Notice

	app *setpoint.App
	// changes says how what the handler watches of an object differs; nil for what is
	// no handler.
	changes func(old, now json.RawMessage) ([]hook.FieldChange, error)
	related []hook.Group
	stored  stored
	// indexed are objects as JSON.
	indexed []json.RawMessage
	// apiVersion and kind are the object's.
	apiVersion, kind string
	// The rest is for reviews alone.
	user        setpoint.User
	dryRun      bool
	subresource string
}

// uid is that of objects which were given none.
const uid = "5e7b0147-0000-4000-8000-000000000001"

// about says which object it is.
func (n *notice) about(o any) error {
	u, err := n.untyped(o)
	if err != nil {
		return err
	}
	u.SetName(cmp.Or(u.GetName(), "test"))
	u.SetUID(cmp.Or(u.GetUID(), uid))
	n.Namespace, n.Name = u.GetNamespace(), u.GetName()
	n.apiVersion, n.kind = u.GetAPIVersion(), u.GetKind()
	n.Object, err = u.MarshalJSON()
	return err
}

// untyped is an object with its apiVersion and kind.
func (n *notice) untyped(o any) (*unstructured.Unstructured, error) {
	apiVersion, kind, err := n.app.KindOf(o)
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
	return func(n *notice) error {
		n.Reason = reason
		return nil
	}
}

// Attempt says how often the call has failed already.
func Attempt(attempt int) Option {
	return func(n *notice) error {
		n.Attempt = attempt
		return nil
	}
}

// Gone calls the handler for the event of the object's end.
func Gone() Option {
	return func(n *notice) error {
		n.Gone, n.Reason = true, setpoint.Event
		return nil
	}
}

// Owned are objects that the object owns: of a parent, its children.
func Owned(objects ...any) Option {
	return func(n *notice) error { return n.show(&n.Owned, objects) }
}

// Related are objects that Customize asked for.
func Related(objects ...any) Option {
	return func(n *notice) error { return n.show(&n.related, objects) }
}

// Stored are objects that Call.List finds.
func Stored(objects ...any) Option {
	return func(n *notice) error { return n.show((*[]hook.Group)(&n.stored), objects) }
}

// Indexed are objects that the app's indexes of their kinds hold during the call, as
// far as the Labels and Namespaces of those kinds select them; without, they are empty.
// Calls with it, of one app, wait for each other.
func Indexed(objects ...any) Option {
	return func(n *notice) error {
		for _, o := range objects {
			u, err := n.untyped(o)
			if err != nil {
				return err
			}
			data, err := u.MarshalJSON()
			if err != nil {
				return err
			}
			n.indexed = append(n.indexed, data)
		}
		return nil
	}
}

// fill has the indexes hold what the call is to find in them.
func (n *notice) fill() (release func(), err error) {
	if n.indexed == nil {
		return func() {}, nil
	}
	return n.app.Fill(n.indexed...)
}

// stored is a hook.Reader of objects that a test has thought of.
type stored []hook.Group

// List finds those that match.
func (s *stored) List(_ context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
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
	return func(n *notice) error {
		n.Since = at
		return nil
	}
}

// show puts objects into the groups of their kinds.
func (n *notice) show(groups *[]hook.Group, objects []any) error {
	for _, o := range objects {
		u, err := n.untyped(o)
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

// Was calls the handler for an update of an object that was like that before. As on a
// cluster, Call.Changes are those of the fields that the handler watches: see
// setpoint.Field.
func Was(old any) Option {
	return func(n *notice) error {
		u, err := n.untyped(old)
		if err != nil {
			return err
		}
		u.SetNamespace(n.Namespace)
		u.SetName(n.Name)
		u.SetUID(cmp.Or(u.GetUID(), uid))
		n.Reason = setpoint.Update
		if n.Old, err = u.MarshalJSON(); err != nil {
			return err
		}
		if n.changes != nil {
			n.Changes, err = n.changes(n.Old, n.Object)
		}
		return err
	}
}
