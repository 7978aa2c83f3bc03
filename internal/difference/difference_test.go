package difference_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// Kinds of the same name in two groups are two objects.
func TestKindsOfTheSameName(t *testing.T) {
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"ClusterIP"}}`
	const knative = `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"a"},"spec":{"template":{}}}`
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
		comparing := comparisonOf(t, `{"children":[`+c.before+`]}`, `{"children":[`+c.after+`]}`)
		if diff := cmp.Diff(c.want, comparing.Effects()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// comparisonOf returns the comparison of two responses for a parent without children.
func comparisonOf(t *testing.T, before, after string) *difference.Comparison {
	t.Helper()
	decoded := func(text string) difference.Response {
		return must.Get(difference.Decode(json.RawMessage(text), "children", "shop")).In(t)
	}
	return &difference.Comparison{
		Before: decoded(before), After: decoded(after), ChildrenField: "children", Namespace: "shop",
		Plan: func() ([]*object.Object, plan.Plan, error) { return nil, plan.Plan{}, nil },
	}
}

// observedPod is a child that the present logic may delete, and that was created as {"image":"a"}.
const observedPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","labels":{"controller-uid":"u"},"annotations":{"x":"{\"metadata\":{\"labels\":{\"controller-uid\":\"u\"}},\"spec\":{\"image\":\"a\"}}"},` +
	`"ownerReferences":[{"apiVersion":"v1","kind":"Team","name":"red","uid":"u","controller":true}]},"spec":{"image":"a"}}`

// planOf returns what is written of the observed Pod for a composite with Pods and ConfigMaps.
func planOf(t *testing.T, method plan.UpdateMethod, after difference.Response) ([]*object.Object, plan.Plan, error) {
	t.Helper()
	parent := must.Get(object.Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"shop","uid":"u"}}`))).In(t)
	planner := plan.Planner{
		Parent: parent, Namespaced: true, GenerateSelector: true, LastApplied: "x", Selector: must.Get(selector.Of(parent, true)).In(t),
		Rules: plan.Rules{
			{Resource: object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Method: method},
			{Resource: object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}, Method: plan.InPlace},
		},
	}
	var children []json.RawMessage
	list, _ := after["children"].([]any)
	for _, child := range list {
		children = append(children, must.Get(json.Marshal(child)).In(t))
	}
	observed := []*object.Object{must.Get(object.Parse([]byte(observedPod))).In(t)}
	todo, err := difference.Plan(&planner, observed, children)
	return observed, todo, err
}

func TestEffectsOnChildren(t *testing.T) {
	const pod, other, config = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"image":"a"}}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"image":"b"}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	const was = `{"children":[` + pod + `,` + config + `],"status":{"ready":1}}`
	for name, c := range map[string]struct {
		got    string
		method plan.UpdateMethod
		want   string
	}{
		"the same":             {was, plan.InPlace, ""},
		"in another order":     {`{"children":[` + config + `,` + pod + `],"status":{"ready":1}}`, plan.InPlace, ""},
		"a status":             {`{"children":[` + pod + `,` + config + `],"status":{"ready":2}}`, plan.InPlace, "StatusOnly: status.ready is 2, was 1"},
		"a child less":         {`{"children":[` + config + `],"status":{"ready":0}}`, plan.InPlace, "WouldDelete: delete Pod a; StatusOnly: status.ready is 0, was 1"},
		"one not there yet":    {`{"children":[` + pod + `],"status":{"ready":1}}`, plan.InPlace, "WouldDelete: ConfigMap c is not desired any more"},
		"a child more":         {`{"children":[` + pod + `,` + config + `,{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}],"status":{"ready":1}}`, plan.InPlace, "WouldCreate: create Pod b"},
		"a field":              {`{"children":[` + other + `,` + config + `],"status":{"ready":1}}`, plan.InPlace, `WouldUpdate: update Pod a: spec.image is "b", was "a"`},
		"a field, recreated":   {`{"children":[` + other + `,` + config + `],"status":{"ready":1}}`, plan.RollingRecreate, `WouldDelete: delete and create again Pod a: spec.image is "b", was "a"`},
		"a field, on deletion": {`{"children":[` + other + `,` + config + `],"status":{"ready":1}}`, plan.OnDelete, `StatusOnly: Pod a: spec.image is "b", was "a" (nothing is written now)`},
		"an error":             {`{"error":"no such image"}`, plan.InPlace, "Failed: no such image"},
		"an invalid child": {`{"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}],"status":{"ready":1}}`, plan.InPlace,
			"Failed: Setpoint would reject the response: children[0].kind: Secret of v1 is not among the controller's childResources; " +
				"to apply it, add to spec.childResources: - {apiVersion: v1, resource: secrets}"},
		"the end": {`{"children":[` + pod + `,` + config + `],"status":{"ready":1},"finalized":true}`, plan.InPlace, "WouldDelete: finalized is true, was absent"},
	} {
		comparing := comparisonOf(t, was, c.got)
		comparing.Plan = func() ([]*object.Object, plan.Plan, error) { return planOf(t, c.method, comparing.After) }
		texts := lists.Map(comparing.Effects(), func(e difference.Effect) string { return fmt.Sprintf("%s: %s", e.Consequence, e.Text) })
		if got := strings.Join(texts, "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestEmptyFields shows that what is empty in an object is not what is absent: the API server may have a default.
func TestEmptyFields(t *testing.T) {
	const child = `{"children":[{"kind":"Deployment","metadata":{"name":"a"},"spec":%s}]}`
	for name, c := range map[string]struct {
		was, is string
		want    int
	}{
		"a field of the response": {`{"children":[],"resyncAfterSeconds":0,"finalized":false}`, `{}`, 0},
		"no replicas":             {fmt.Sprintf(child, `{"replicas":0}`), fmt.Sprintf(child, `{}`), 1},
		"a volume":                {fmt.Sprintf(child, `{"volumes":[{"name":"v","emptyDir":{}}]}`), fmt.Sprintf(child, `{"volumes":[{"name":"v"}]}`), 1},
		"a status":                {`{"status":{"ready":0}}`, `{"status":{}}`, 1},
	} {
		if got := comparisonOf(t, c.was, c.is).Effects(); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
