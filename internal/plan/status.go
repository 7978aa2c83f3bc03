package plan

import (
	"encoding/json"
	"maps"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// OverlayResponse lays what a reply says of its parent over it: the status and, where the
// controller is a decorator, labels and annotations. That is what the hook is
// asked about next. It is the observed parent itself when nothing changes.
func (f *Planner) OverlayResponse(parent *object.Object, resource object.Resource, response *hook.Response, now time.Time) (*object.Object, error) {
	if f.isDecorator() {
		decorated, err := decorate(parent, response)
		if err != nil {
			return nil, err
		}
		parent = decorated
	}
	s := statusOverlay{resource: resource, decorates: f.isDecorator(), now: now}
	return s.overlay(parent, response)
}

// statusOverlay is how the status of a reply becomes that of its parent.
type statusOverlay struct {
	resource  object.Resource
	decorates bool
	now       time.Time
}

func (s statusOverlay) overlay(parent *object.Object, response *hook.Response) (*object.Object, error) {
	if s.isUnchanged(response) {
		return parent, nil
	}
	var want map[string]any
	if err := utiljson.Unmarshal(response.Status, &want); response.Status != nil && err != nil {
		return nil, err
	}
	// A status that is missing, or no object, has nothing to keep or to merge with.
	have, _ := tree(parent.Field("status"))
	want = s.complete(have, want, parent.Generation())
	withConditions(have, want, response.Conditions, conditionStamp{parent.Generation(), s.now})
	if response.Message != "" {
		want["message"] = response.Message
	}
	if difference(have, want) == "" && !s.createsStatus(parent, response) {
		return parent, nil
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	return parent.With(text, "status")
}

// createsStatus says that an object without a status is to have one, be it empty. Only a
// decorator's can be: observedGeneration is in that of a composite's custom resource.
func (s statusOverlay) createsStatus(parent *object.Object, response *hook.Response) bool {
	return s.resource.Custom && response.Status != nil && parent.Field("status") == nil
}

// isUnchanged says that the status stays as it is.
func (s statusOverlay) isUnchanged(response *hook.Response) bool {
	if !s.resource.Status && !s.decorates {
		return true
	}
	nothing := response.Status == nil && len(response.Conditions) == 0 && response.Message == ""
	return nothing && (s.decorates || !s.resource.Custom)
}

// complete completes a reply's status. A composite's custom resource has it
// replaced whole, and observedGeneration set in it. The status of a built-in
// kind has other writers: it is merged member by member; a null removes. A
// decorator that says something of a custom resource's status replaces it, one that
// does not leaves it alone.
func (s statusOverlay) complete(have, want map[string]any, generation int64) map[string]any {
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
