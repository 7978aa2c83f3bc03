package apiserver_test

import (
	"encoding/json"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The kinds of the tests.
var (
	configMaps  = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	pods        = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}
	deployments = object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true}
	budgets     = object.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true, Status: true}
	namespace   = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", Status: true}
	widgets     = object.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true, Status: true, Custom: true}
)

// widgetCRD has a default, a limit, a rule, and a list that merges by key.
const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "!has(oldSelf.color) || self.color == oldSelf.color", message: color is immutable}
            properties:
              size: {type: integer, minimum: 0, maximum: 10, default: 1}
              color: {type: string}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, value: {type: string}}
          status:
            type: object
            properties: {ready: {type: boolean}}
`

// world is a server and its state.
type world struct {
	t      testing.TB
	server *apiserver.Server
	state  *apiserver.State
}

func newWorld(t testing.TB) *world {
	t.Helper()
	crd, err := yaml.YAMLToJSON([]byte(widgetCRD))
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(apiserver.Options{
		Kinds: []object.Resource{configMaps, pods, deployments, budgets}, CRDs: [][]byte{crd}, Namespaces: []string{"shop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, server, server.Empty()}
}

// parse reads an object in YAML.
func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o, err := object.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (w *world) send(manager string, r apiserver.Request) (*object.Object, error) {
	after, o, err := w.server.As(manager).Send(w.state, r)
	w.state = after
	return o, err
}

func (w *world) create(resource object.Resource, text string) *object.Object {
	w.t.Helper()
	o := parse(w.t, text)
	stored, err := w.send("test", apiserver.Request{Method: http.MethodPost, Resource: resource, Namespace: o.Namespace(), Body: o.JSON()})
	if err != nil {
		w.t.Fatal(err)
	}
	return stored
}

func (w *world) apply(manager string, resource object.Resource, text string) (*object.Object, error) {
	w.t.Helper()
	o := parse(w.t, text)
	return w.send(manager, apiserver.Request{
		Method: http.MethodPatch, Type: types.ApplyYAMLPatchType, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Body: o.JSON(),
	})
}

func (w *world) field(resource object.Resource, name string, path ...string) string {
	w.t.Helper()
	o := w.state.Get(resource, "shop", name)
	if o == nil {
		w.t.Fatalf("%s %s is gone", resource.Kind, name)
	}
	return string(o.Field(path...))
}

func TestCustomResourcesHaveDefaultsAndRules(t *testing.T) {
	w := newWorld(t)
	w.create(widgets, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop}, spec: {color: red, unknown: 1}, status: {ready: true}}`)
	if got := w.field(widgets, "a", "spec"); got != `{"color":"red","size":1}` {
		t.Errorf("spec: %s", got)
	}
	if got := w.field(widgets, "a", "status"); got != "" {
		t.Errorf("a creation set the status: %s", got)
	}
	for patch, wrong := range map[string]string{
		`{"spec":{"color":"blue"}}`: "color is immutable",
		`{"spec":{"size":11}}`:      "spec.size",
	} {
		_, err := w.send("test", apiserver.Request{Method: http.MethodPatch, Type: types.MergePatchType, Resource: widgets, Namespace: "shop", Name: "a", Body: []byte(patch)})
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: want an error about %s, got %v", patch, wrong, err)
		}
	}
}

func TestServerSideApplyMergesAndRemoves(t *testing.T) {
	w := newWorld(t)
	for manager, text := range map[string]string{
		"one": `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop}, spec: {parts: [{name: first, value: "1"}]}}`,
		"two": `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop}, spec: {parts: [{name: second, value: "2"}]}}`,
	} {
		if _, err := w.apply(manager, widgets, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.apply("one", widgets, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop}, spec: {}}`); err != nil {
		t.Fatal(err)
	}
	var spec struct{ Parts []struct{ Name string } }
	if err := json.Unmarshal([]byte(w.field(widgets, "a", "spec")), &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Parts) != 1 || spec.Parts[0].Name != "second" {
		t.Errorf("parts: %+v", spec.Parts)
	}
}

func TestStatesAreRestoredFromTheirSlots(t *testing.T) {
	w := newWorld(t)
	w.create(widgets, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop, labels: {l: "1"}}, spec: {size: 2}}`)
	w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: gone, namespace: shop}}`)
	if _, _, err := w.server.As("test").Delete(w.state, configMaps, w.state.Get(configMaps, "shop", "gone"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	restored := w.server.Restore(func(yield func(apiserver.Slot) bool) {
		for one := range w.state.Slots() {
			if one.Object != nil {
				renumbered, err := one.Object.With([]byte(`"40"`), "metadata", "resourceVersion")
				if err != nil {
					t.Fatal(err)
				}
				one.Object, one.Written = renumbered, 40
			}
			if !yield(one) {
				return
			}
		}
	})
	before, after := w.state.Stored(widgets, "shop", "a"), restored.Stored(widgets, "shop", "a")
	if before.Fingerprint().Hash != after.Fingerprint().Hash || after.Version() != 40 {
		t.Errorf("%s\nbecame\n%s", before.JSONWithManagedFields(), after.JSONWithManagedFields())
	}
	if _, err := w.send("test", apiserver.Request{Method: http.MethodPatch, Type: types.MergePatchType, Resource: widgets, Namespace: "shop", Name: "a", Body: []byte(`{"spec":{"size":3}}`)}); err != nil {
		t.Error(err)
	}
}
