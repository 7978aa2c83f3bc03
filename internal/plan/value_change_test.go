package plan

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A kind with a CRD gets an apply for a change that is an update of a built-in kind: the cache may have a
// default that the CRD has no longer, and an update would write it. So does one whose CRD cannot be read, and one of an
// aggregated API.
func TestUpdateInsteadOfApply(t *testing.T) {
	const created = `{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"town","labels":{"a":"1"}},"spec":{"replicas":1}}`
	const wanted = `{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"town","labels":{"a":"2"}},"spec":{"replicas":2}}`
	of := func(group, kind string) object.Resource {
		return object.Resource{Group: group, Version: "v1", Plural: "all", Kind: kind, Namespaced: true}
	}
	for _, c := range []struct {
		resource object.Resource
		update   bool
	}{
		{object.Resource{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true, Status: true, Custom: true}, false},
		{of("example.org", "Web"), false},
		{of("snapshot.storage.k8s.io", "VolumeSnapshot"), false},
		{of("apps", "Deployment"), true},
	} {
		f := plannerOf(t, nil)
		rule := Rule{Resource: c.resource, Method: InPlace, Strategy: ServerSide}
		desired := func(format string) []Child {
			return []Child{{Object: parse(t, fmt.Sprintf(format, c.resource.APIVersion(), c.resource.Kind)), Rule: rule}}
		}
		first := must.Get(f.Changes(nil, desired(created), nil)).In(t)
		observed := applyPlan(t, nil, first)
		p := must.Get(f.Changes(observed, desired(wanted), nil)).In(t)
		action, _ := p.First()
		if p.Len() != 1 || action.Verb != Apply || (action.Update != nil) != c.update {
			t.Errorf("%s: planned %s, the test expects one apply, by an update: %v", c.resource, describe(t, p), c.update)
		}
	}
}
