package explore_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// siblings makes the ConfigMaps x and y as long as that exists which the thing has in its text. That one is not a copy.
func siblings(parent thing, r *hook.Request) *hook.Response {
	response := &hook.Response{}
	for _, name := range []string{"x", "y"} {
		if len(r.Related[0].Objects) > 0 && name != parent.Spec.Text {
			response.Children = append(response.Children, configMap(name, "copy"))
		}
	}
	return response
}

// TestAChildThatIsRelated shows that the process hears of the end of a related object that it has deleted itself.
func TestAChildThatIsRelated(t *testing.T) {
	program := programOf(siblings)
	program.Customize = hook.CustomizerFunc(func(_ context.Context, r *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		var parent thing
		if err := json.Unmarshal(r.Parent, &parent); err != nil {
			return nil, err
		}
		return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "configmaps", Names: []string{parent.Spec.Text}}}}, nil
	})
	options := systemOf(t.Context(), t, program)
	options.Objects[0] = apiservertest.Parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"default"},"spec":{"text":"source"}}`)
	options.Objects = append(options.Objects, apiservertest.Parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"source","namespace":"default"}}`))
	options.Edits = []world.Edit{
		editOf("another source", map[string]any{"text": "x"}),
		{Name: "delete the source", Object: configMaps.Ref("default", "source"), Delete: true},
	}
	options.Bounds = explore.Bounds{Edits: 2}
	wantViolations(t, run(t, options))
}

// TestAChildThatTwoWant shows that a parent hears of the end of its child if another one creates it again before the
// event comes.
func TestAChildThatTwoWant(t *testing.T) {
	options := system(t, func(parent thing, r *hook.Request) *hook.Response {
		response := one("x")
		if children := r.Children[0].Objects; slices.ContainsFunc(children, func(e hook.Entry) bool { return e.Name == "c" }) {
			response.Children = append(response.Children, configMap("c-is-of-"+parent.Metadata.Name, "x"))
		}
		return response
	})
	options.Objects = append(options.Objects, apiservertest.Parse(t, otherThing))
	options.Bounds, options.Unchecked = explore.Bounds{Faults: 1}, []property.Property{property.NoRecreate, property.Reconciled}
	report := run(t, options)
	wantViolations(t, report)
	wantText(t, report.String(), "states of rest a reconcile fails: create ConfigMap default/c: it already exists and is owned by Thing")
	// Unless the author allows it, it is a mistake that one of them never gets it.
	options.Unchecked = []property.Property{property.NoRecreate}
	report = run(t, options)
	wantViolations(t, report, property.Reconciled)
	wantText(t, report.String(), "every reconcile of Thing default/b for things fails: create ConfigMap default/c: it already exists and is owned by Thing a")
}
