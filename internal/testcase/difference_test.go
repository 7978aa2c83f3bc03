package testcase

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// observedPod is a child that the present logic may delete, and that was created as {"image":"a"}.
const observedPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","labels":{"controller-uid":"u"},"annotations":{"x":"{\"metadata\":{\"labels\":{\"controller-uid\":\"u\"}},\"spec\":{\"image\":\"a\"}}"},` +
	`"ownerReferences":[{"apiVersion":"v1","kind":"Team","name":"red","uid":"u","controller":true}]},"spec":{"image":"a"}}`

// target of a composite with Pods and ConfigMaps.
func compositeTarget(t *testing.T, method plan.UpdateMethod) target {
	t.Helper()
	kinds := must.Get(workspace.NewKinds(nil)).In(t)
	parsed := must.Get(object.Parse([]byte(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"teams"}}`))).In(t)
	return target{
		controller: &workspace.Controller{Object: parsed}, kinds: kinds, hook: hookSync,
		compose: &composite.Program{
			Parent: object.Resource{Group: "example.com", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true, Custom: true}, GenerateSelector: true, LastApplied: "x",
			Children: plan.Rules{
				{Resource: object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Method: method},
				{Resource: object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}, Method: plan.InPlace},
			},
		},
	}
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
		r := &recorded{call: &recording.Call{Object: object.Ref{Namespace: "shop"}}, Case: &Case{target: compositeTarget(t, c.method), spec: spec{Request: decode[request](t, `{
			"parent":{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"shop","uid":"u"}},"children":[`+observedPod+`]}`)}}, response: fieldsIn(t, was)}
		if got := effectTexts(r.effectsOf(fieldsIn(t, c.got))); got != c.want {
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
		if got := difference.Changes(fieldsIn(t, c.was), fieldsIn(t, c.is)); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestReplayOfAGrowingFile replays a call that was recorded after the calls were counted.
func TestReplayOfAGrowingFile(t *testing.T) {
	r := &replay{requests: map[requestKey]*lastResponse{}}
	if err := r.run(t.Context(), &recording.Call{Hook: "sync"}); err != nil || r.unknown > 0 {
		t.Errorf("%v, %d calls without a controller", err, r.unknown)
	}
}

func TestEffectsOfHandlers(t *testing.T) {
	const was = `{"patch":{"spec":{"a":1}},"apply":[{"kind":"Pod","metadata":{"name":"a"},"spec":1}],"retryAfterSeconds":3}`
	for name, c := range map[string]struct{ got, want string }{
		"the same":     {was, ""},
		"a deletion":   {was[:len(was)-1] + `,"delete":[{"kind":"Pod","name":"b"}]}`, "WouldDelete: delete Pod b"},
		"another wait": {strings.Replace(was, "3}", "4}", 1), "StatusOnly: retryAfterSeconds is 4, was 3"},
		"writes":       {`{"patch":{"spec":{"a":2}},"apply":[{"kind":"Pod","metadata":{"name":"b"}}],"retryAfterSeconds":3}`, "WouldCreate: apply Pod b; WouldUpdate: Pod a is not in apply any more; WouldUpdate: patch.spec.a is 2, was 1"},
	} {
		r := &recorded{call: &recording.Call{}, Case: &Case{target: target{handle: &handler.Program{}}}, response: fieldsIn(t, was)}
		if got := effectTexts(r.effectsOf(fieldsIn(t, c.got))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func fieldsIn(t *testing.T, text string) fields {
	t.Helper()
	return must.Get(object.Decode([]byte(text))).In(t)
}

func effectTexts(list []difference.Effect) string {
	texts := lists.Map(list, func(each difference.Effect) string { return fmt.Sprintf("%s: %s", each.Consequence, each.Text) })
	return strings.Join(texts, "; ")
}

func TestSecretParts(t *testing.T) {
	parts := secretParts{paths: []string{"status.hash"}, kinds: map[string]bool{kindOfPath(object.JoinPath("children", "ConfigMap shop/a-1")): true}}
	for path, want := range map[string]bool{
		"status.hash": true, "status.hash.x": true, "status.hashes": false, `children["ConfigMap shop/a-2"].data`: true, "children.ConfigMap a.data": true, `children["Pod shop/a"]`: false, "status": false,
	} {
		if got := parts.include(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}
