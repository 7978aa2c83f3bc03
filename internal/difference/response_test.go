package difference_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Kinds of the same name in two groups are two objects.
func TestKindsOfTheSameName(t *testing.T) {
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"ClusterIP"}}`
	const knative = `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"a"},"spec":{"template":{}}}`
	decoded := func(children string) difference.Response {
		return must.Get(difference.Decode(json.RawMessage(`{"children":[`+children+`]}`), "children", "shop")).In(t)
	}
	for name, c := range map[string]struct {
		before, after string
		want          []difference.Effect
	}{
		"one is left out": {service + "," + knative, service, []difference.Effect{
			{Consequence: difference.WouldDelete, Text: "Service.serving.knative.dev a is not desired any more"},
		}},
		"one in place of the other": {service, knative, []difference.Effect{
			{Consequence: difference.WouldDelete, Text: "Service a is not desired any more"},
			{Consequence: difference.WouldCreate, Text: "create Service.serving.knative.dev a"},
		}},
		"in another order": {service + "," + knative, knative + "," + service, nil},
	} {
		comparing := difference.Comparison{
			Before: decoded(c.before), After: decoded(c.after), ChildrenField: "children", Namespace: "shop",
			Plan: func() ([]*object.Object, plan.Plan, error) { return nil, plan.Plan{}, nil },
		}
		if diff := cmp.Diff(c.want, comparing.Effects()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
