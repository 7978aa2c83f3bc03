package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// family creates an owner and two dependents, of which only the first blocks its deletion.
func family(t *testing.T) (*world, *object.Object) {
	t.Helper()
	w := newWorld(t)
	owner := w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: owner, namespace: shop}}`)
	for name, blocks := range map[string]string{"first": "true", "second": "false"} {
		w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: `+name+`, namespace: shop, ownerReferences: [
			{apiVersion: v1, kind: ConfigMap, name: owner, uid: `+owner.UID()+`, blockOwnerDeletion: `+blocks+`}]}}`)
	}
	return w, owner
}

func (w *world) delete(resource object.Resource, o *object.Object, policy metav1.DeletionPropagation) {
	w.t.Helper()
	after, _, err := w.server.Send(w.state, "test", apiserver.DeletionOf(resource, o, metav1.DeleteOptions{PropagationPolicy: &policy}))
	must.Succeed(w.t, err)
	w.state = after
}

// collected runs the garbage collector to its end, always by the first or always by the last possible step. It
// returns what happened.
func (w *world) collected(first bool) []string {
	w.t.Helper()
	var story []string
	for len(story) < 20 {
		changes := w.server.Collect(w.state)
		if len(changes) == 0 {
			return story
		}
		change := changes[0]
		if !first {
			change = changes[len(changes)-1]
		}
		story = append(story, strings.TrimPrefix(change.Object.String()+" "+change.Name, change.Object.Kind.Kind+" "))
		w.state = change.State
	}
	w.t.Fatalf("the garbage collector does not end: %q", story)
	return nil
}

// names returns the names of the objects in the namespace shop.
func (w *world) names() string {
	var names []string
	for o := range w.state.Objects() {
		if o.Namespace() == "shop" {
			names = append(names, o.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestGarbageIsCollectedByPolicy(t *testing.T) {
	for _, test := range []struct {
		policy metav1.DeletionPropagation
		left   string
		steps  []string
	}{
		{metav1.DeletePropagationBackground, "", []string{"shop/first has no owner any more and is deleted", "shop/second has no owner any more and is deleted"}},
		{metav1.DeletePropagationOrphan, "first second", []string{"shop/first is orphaned", "shop/owner loses the finalizer orphan", "shop/second is orphaned"}},
		{metav1.DeletePropagationForeground, "", []string{"shop/first has no owner any more and is deleted", "shop/owner loses the finalizer foregroundDeletion", "shop/second has no owner any more and is deleted"}},
	} {
		for _, first := range []bool{true, false} {
			w, owner := family(t)
			w.delete(configMaps, owner, test.policy)
			story := w.collected(first)
			slices.Sort(story)
			if !slices.Equal(story, test.steps) {
				t.Errorf("%s: %q", test.policy, story)
			}
			if left := w.names(); left != test.left {
				t.Errorf("%s: %q are left", test.policy, left)
			}
		}
	}
}

func TestForegroundDeletionWaitsForWhatBlocksIt(t *testing.T) {
	w, owner := family(t)
	w.delete(configMaps, owner, metav1.DeletePropagationForeground)
	for _, change := range w.server.Collect(w.state) {
		if strings.Contains(change.Name, "loses the finalizer") {
			t.Errorf("%s, although a dependent blocks it", change.Name)
		}
	}
	w.delete(configMaps, w.state.Get(configMaps, "shop", "first"), metav1.DeletePropagationBackground)
	if !slices.ContainsFunc(w.server.Collect(w.state), func(c apiserver.Change) bool { return strings.Contains(c.Name, "loses the finalizer") }) {
		t.Error("the owner stays, although nothing blocks it")
	}
}

func TestOwnerCyclesStay(t *testing.T) {
	w := newWorld(t)
	a := w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}`)
	b := w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: `+a.UID()+`}]}}`)
	after, _, err := w.server.Send(w.state, "test", apiserver.PatchOf(configMaps, a, "", map[string]any{"metadata": map[string]any{
		"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": b.UID()}},
	}}))
	must.Succeed(t, err)
	if changes := w.server.Collect(after); len(changes) > 0 {
		t.Errorf("%s", changes[0].Name)
	}
}

func TestNamespacesEndWhenTheyAreEmpty(t *testing.T) {
	w, _ := family(t)
	w.delete(namespace, w.state.Get(namespace, "", "shop"), metav1.DeletePropagationBackground)
	_, err := w.send("test", apiserver.Request{Method: http.MethodPost, Resource: configMaps, Namespace: "shop",
		Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}`)})
	if !apierrors.HasStatusCause(err, "NamespaceTerminating") {
		t.Errorf("a creation in a terminating namespace: %v", err)
	}
	story := w.collected(true)
	if len(story) != 4 || story[3] != "shop is empty and goes" || w.state.Get(namespace, "", "shop") != nil {
		t.Errorf("%q", story)
	}
}

func TestEvictionsRespectBudgets(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"web", "other", "new"} {
		w.create(pods, `{apiVersion: v1, kind: Pod, metadata: {name: `+name+`, namespace: shop, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}`)
	}
	w.patch(pods, "web", "status", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	w.patch(pods, "other", "status", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	w.create(budgets, `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}`)
	evict := func(name, options string) error {
		_, err := w.send("test", apiserver.Request{Method: http.MethodPost, Resource: pods, Namespace: "shop", Name: name, Subresource: "eviction",
			Body: []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + name + `","namespace":"shop"}` + options + `}`)})
		return err
	}
	if err := evict("web", ""); !apierrors.IsTooManyRequests(err) {
		t.Errorf("an eviction that a budget does not allow: %v", err)
	}
	w.patch(budgets, "web", "status", `{"status":{"observedGeneration":1,"disruptionsAllowed":1}}`)
	if err := evict("web", `,"deleteOptions":{"dryRun":["All"]}`); err != nil || w.state.Get(pods, "shop", "web") == nil {
		t.Errorf("a dry run: %v", err)
	}
	if err := evict("web", ""); err != nil || w.state.Get(pods, "shop", "web") != nil {
		t.Errorf("an eviction that a budget allows: %v", err)
	}
	if err := evict("other", ""); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a second eviction before the budget is up to date: %v", err)
	}
	if err := evict("new", ""); err != nil || w.state.Get(pods, "shop", "new") != nil {
		t.Errorf("an eviction of a pod that does not run yet: %v", err)
	}
}

func TestPodsOnNodesEndGracefully(t *testing.T) {
	w := newWorld(t)
	w.create(pods, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {nodeName: node, containers: [{name: c, image: i}]}}`)
	w.delete(pods, w.state.Get(pods, "shop", "web"), metav1.DeletePropagationBackground)
	pod := w.state.Get(pods, "shop", "web")
	if pod == nil || !pod.Deleting() || string(pod.Field("metadata", "deletionGracePeriodSeconds")) != "30" {
		t.Fatalf("%v", pod)
	}
	now := int64(0)
	after, _, err := w.server.Send(w.state, "kubelet", apiserver.DeletionOf(pods, pod, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if err != nil || after.Get(pods, "shop", "web") != nil {
		t.Errorf("the pod stays: %v", err)
	}
}

func TestEqualHistoriesLeadToEqualStates(t *testing.T) {
	one := `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: shop}}`
	two := `{apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: shop}}`
	a, b := newWorld(t), newWorld(t)
	b.server, b.state = a.server, a.state
	a.create(configMaps, one)
	a.create(configMaps, two)
	b.create(configMaps, two)
	b.create(configMaps, one)
	if !slices.Equal(a.state.Entries, b.state.Entries) {
		t.Errorf("creations in another order: %v, %v", a.state.Entries, b.state.Entries)
	}
}
