package apiserver_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The kinds of the tests.
var (
	configMaps  = apiservertest.ConfigMaps
	pods        = apiservertest.Pods
	deployments = apiservertest.Deployments
	widgets     = apiservertest.Widgets
	budgets     = object.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true, Status: true}
	autoscalers = object.Resource{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, Status: true}
	leases      = object.Leases
	namespace   = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", Status: true}
)

// world is a server and its state.
type world struct {
	t      testing.TB
	server *apiserver.Server
	state  *apiserver.State
}

func newWorld(t testing.TB) *world {
	t.Helper()
	server := apiservertest.New(t, []object.Resource{configMaps, pods, deployments, budgets, autoscalers, leases}, apiservertest.WidgetCRD, "shop")
	return &world{t, server, server.Empty()}
}

func (w *world) send(manager string, r apiserver.Request) (*object.Object, error) {
	after, o, err := w.server.Send(w.state, manager, r)
	w.state = after
	return o, err
}

func (w *world) create(resource object.Resource, text string) *object.Object {
	w.t.Helper()
	o := apiservertest.Parse(w.t, text)
	return must.Get(w.send("test", apiserver.Request{Method: http.MethodPost, Resource: resource, Namespace: o.Namespace(), Body: o.JSON()})).In(w.t)
}

func (w *world) apply(manager string, resource object.Resource, text string) (*object.Object, error) {
	w.t.Helper()
	o := apiservertest.Parse(w.t, text)
	return w.send(manager, apiserver.Request{
		Method: http.MethodPatch, Type: types.ApplyYAMLPatchType, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Body: o.JSON(),
	})
}

func (w *world) patch(resource object.Resource, name, subresource, patch string) {
	w.t.Helper()
	must.Get(w.send("test", apiserver.Request{Method: http.MethodPatch, Type: types.MergePatchType, Resource: resource, Namespace: "shop", Name: name,
		Subresource: subresource, Body: []byte(patch)})).In(w.t)
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
		must.Get(w.apply(manager, widgets, text)).In(t)
	}
	must.Get(w.apply("one", widgets, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop}, spec: {}}`)).In(t)
	var spec struct{ Parts []struct{ Name string } }
	must.Succeed(t, json.Unmarshal([]byte(w.field(widgets, "a", "spec")), &spec))
	if len(spec.Parts) != 1 || spec.Parts[0].Name != "second" {
		t.Errorf("parts: %+v", spec.Parts)
	}
}

// Kubernetes 1.37 counts the generations of autoscalers too.
func TestAutoscalersHaveGenerations(t *testing.T) {
	w := newWorld(t)
	w.create(autoscalers, `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: shop}, spec: {minReplicas: 0, maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}}`)
	w.patch(autoscalers, "a", "", `{"metadata":{"labels":{"a":"b"}}}`)
	if got := w.field(autoscalers, "a", "metadata", "generation"); got != "1" {
		t.Errorf("generation %s", got)
	}
	w.patch(autoscalers, "a", "", `{"spec":{"maxReplicas":3}}`)
	if got := w.field(autoscalers, "a", "metadata", "generation"); got != "2" {
		t.Errorf("after a change: generation %s", got)
	}
}

// Creations by any method ignore what only the server sets; those by PUT and apply do since Kubernetes 1.37.
func TestCreationsIgnoreWhatTheServerSets(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
		w := newWorld(t)
		o := apiservertest.Parse(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: shop, deletionTimestamp: "2020-01-01T00:00:00Z", deletionGracePeriodSeconds: 0}}`)
		r := apiserver.Request{Method: method, Resource: leases, Namespace: "shop", Body: o.JSON()}
		if method != http.MethodPost {
			r.Name = "a"
		}
		if method == http.MethodPatch {
			r.Type = types.ApplyYAMLPatchType
		}
		if stored := must.Get(w.send("test", r)).In(t); stored.Deleting() {
			t.Errorf("%s creates an object that is being deleted: %s", method, stored.JSON())
		}
	}
}

// TestRenumberedObjectsAreWritten has the objects of a state as a search renames them.
func TestRenumberedObjectsAreWritten(t *testing.T) {
	w := newWorld(t)
	w.create(widgets, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: shop, labels: {l: "1"}}, spec: {size: 2}}`)
	entries := slices.Clone(w.state.Entries)
	for i := range entries {
		renumbered := must.Get(entries[i].Object.With([]byte(`"40"`), "metadata", "resourceVersion")).In(t)
		entries[i].Object, entries[i].Written = renumbered, 40
	}
	w.state = &apiserver.State{Entries: entries}
	same := w.state
	w.patch(widgets, "a", "", `{"spec":{"size":2}}`)
	if w.state != same {
		t.Errorf("a patch without changes stores %s", w.state.Get(widgets, "shop", "a").JSONWithManagedFields())
	}
	w.patch(widgets, "a", "", `{"spec":{"size":3}}`)
	if got := w.state.Get(widgets, "shop", "a"); got.Version() != 41 {
		t.Errorf("version %d", got.Version())
	}
}
