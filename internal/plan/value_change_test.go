package plan

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// A kind with a CRD gets an apply for a change that is an update of a built-in kind: the cache may have a
// default that the CRD has no longer, and an update would write it.
func TestUpdateInsteadOfApply(t *testing.T) {
	const created = `{"apiVersion":"example.org/v1","kind":"Web","metadata":{"name":"a","namespace":"town","labels":{"a":"1"}},"spec":{"replicas":1}}`
	const wanted = `{"apiVersion":"example.org/v1","kind":"Web","metadata":{"name":"a","namespace":"town","labels":{"a":"2"}},"spec":{"replicas":2}}`
	builtIn := webs
	builtIn.Custom = false
	for _, c := range []struct {
		resource object.Resource
		update   bool
	}{{webs, false}, {builtIn, true}} {
		f := plannerOf(t, nil)
		rule := Rule{Resource: c.resource, Method: InPlace, Strategy: ServerSide}
		first, err := f.Changes(nil, []Child{{Object: parse(t, created), Rule: rule}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		observed := applyPlan(t, nil, first)
		p, err := f.Changes(observed, []Child{{Object: parse(t, wanted), Rule: rule}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		action, _ := p.First()
		if p.Len() != 1 || action.Verb != Apply || (action.Update != nil) != c.update {
			t.Errorf("custom %v: planned %s, the test expects one apply, by an update: %v", c.resource.Custom, describe(t, p), c.update)
		}
	}
}
