package plan

import (
	"encoding/json"
	"maps"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Lay lays what a reply says of its parent over it: the status and, where the
// controller is a decorator, labels and annotations. That is what the hook is
// asked about next. It is the observed parent itself when nothing changes.
func (f *Family) Lay(parent *object.Object, resource object.Resource, reply *hook.Response, now time.Time) (*object.Object, error) {
	if f.decorates() {
		decorated, err := decorate(parent, reply)
		if err != nil {
			return nil, err
		}
		parent = decorated
	}
	s := statusOf{resource: resource, decorates: f.decorates(), now: now}
	return s.laid(parent, reply)
}

// statusOf is how the status of a reply becomes that of its parent.
type statusOf struct {
	resource  object.Resource
	decorates bool
	now       time.Time
}

func (s statusOf) laid(parent *object.Object, reply *hook.Response) (*object.Object, error) {
	if s.silent(reply) {
		return parent, nil
	}
	var want map[string]any
	if err := utiljson.Unmarshal(reply.Status, &want); reply.Status != nil && err != nil {
		return nil, err
	}
	// A status that is missing, or no object, has nothing to keep or to merge with.
	have, _ := tree(parent.Field("status"))
	want = s.settled(have, want, parent.Generation())
	withConditions(have, want, reply.Conditions, conditionStamp{parent.Generation(), s.now})
	if reply.Message != "" {
		want["message"] = reply.Message
	}
	if difference(have, want) == "" && !s.begins(parent, reply) {
		return parent, nil
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	return parent.With(text, "status")
}

// begins says that an object without a status is to have one, be it empty. Only a
// decorator's can be: observedGeneration is in that of a composite's custom resource.
func (s statusOf) begins(parent *object.Object, reply *hook.Response) bool {
	return s.resource.Custom && reply.Status != nil && parent.Field("status") == nil
}

// silent says that the status stays as it is.
func (s statusOf) silent(reply *hook.Response) bool {
	if !s.resource.Status && !s.decorates {
		return true
	}
	nothing := reply.Status == nil && len(reply.Conditions) == 0 && reply.Message == ""
	return nothing && (s.decorates || !s.resource.Custom)
}

// settled completes a reply's status. A composite's custom resource has it
// replaced whole, and observedGeneration set in it. The status of a built-in
// kind has other writers: it is merged member by member; a null removes. A
// decorator that says something of a custom resource's status replaces it, one that
// does not leaves it alone.
func (s statusOf) settled(have, want map[string]any, generation int64) map[string]any {
	switch {
	case s.decorates && want == nil:
		want = maps.Clone(have)
	case !s.resource.Custom:
		want = merger{keys: statusKeys}.objects(have, nil, want)
	}
	if want == nil {
		want = map[string]any{}
	}
	withoutNulls(want)
	if s.resource.Custom && !s.decorates {
		want["observedGeneration"] = generation
	}
	return want
}
