package loop_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

var rollingSets = object.Resource{Group: "examples.setpoint.dev", Version: "v1alpha1", Plural: "rollingsets", Kind: "RollingSet", Namespaced: true, Status: true, Custom: true}

// syncRollingSet is the logic of examples/rolling-set.
func syncRollingSet(request map[string]any) map[string]any {
	at := object.FieldAt
	parent := request["parent"].(map[string]any)
	observed := map[int]map[string]any{}
	last := 0
	for _, pod := range at(request, "children", "Pod.v1").(map[string]any) {
		name := at(pod.(map[string]any), "metadata", "name").(string)
		number, _ := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
		observed[number] = pod.(map[string]any)
		last = max(last, number)
	}
	replicas, _ := object.Number(at(parent, "spec", "replicas"))
	var desired []any
	ready := 0
	for number := range max(int(replicas), last) {
		if observed[number] != nil || ready == number {
			desired = append(desired, rollingPod(parent, number))
		}
		if isReady(observed[number]) {
			ready++
		}
	}
	slices.Reverse(desired)
	if desired == nil {
		desired = []any{}
	}
	return map[string]any{"status": map[string]any{"replicas": len(observed), "readyReplicas": ready}, "children": desired}
}

func isReady(pod map[string]any) bool {
	if pod == nil || object.FieldAt(pod, "metadata", "deletionTimestamp") != nil {
		return false
	}
	return object.FieldAt(pod, "status", "conditions") != nil
}

func rollingPod(parent map[string]any, number int) map[string]any {
	name := fmt.Sprintf("%s-%d", object.FieldAt(parent, "metadata", "name"), number)
	spec := maps.Clone(object.FieldAt(parent, "spec", "template", "spec").(map[string]any))
	spec["hostname"] = name
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "web"}},
	}
}

// rollingSet is the example, compiled once.
var (
	rollingSetOnce sync.Once
	rollingSet     struct {
		server   *apiserver.Server
		programs loop.Programs
		sample   string
	}
)

// newRollingSet returns a world with the example's object, in which pods become ready.
func newRollingSet(t testing.TB, options loop.Options) *world {
	t.Helper()
	rollingSetOnce.Do(func() {
		files, programs := example(t, "rolling-set/inline.yaml", syncRollingSet)
		sample := must.Get(files.Objects[0].With([]byte(`"default"`), "metadata", "namespace")).In(t)
		rollingSet.programs, rollingSet.sample = programs, string(sample.JSON())
		rollingSet.server = newServer(t, []object.Resource{pods, plan.ControllerRevisions}, files.CRDs...)
	})
	w := newWorld(t, rollingSet.server, rollingSet.programs, options, rollingSet.sample)
	w.environment = w.makeReady
	return w
}

func (w *world) setImage(image string) {
	w.patch(rollingSets, "web", "", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "web", "image": image}},
	}}}})
}

func images(w *world) string {
	var all []string
	for o := range w.state.Objects() {
		if o.GroupKind() == pods.GroupKind() {
			fields := must.Get(object.Decode(o.JSON())).In(w.t)
			containers := object.FieldAt(fields, "spec", "containers").([]any)
			all = append(all, o.Name()+"="+containers[0].(map[string]any)["image"].(string))
		}
	}
	return strings.Join(all, " ")
}

func TestRollout(t *testing.T) {
	w := newRollingSet(t, loop.Options{})
	w.settle()
	if got, want := images(w), "web-0=nginx:1.27 web-1=nginx:1.27 web-2=nginx:1.27"; got != want {
		t.Fatalf("pods %s, want %s", got, want)
	}
	w.setImage("b")
	w.settle()
	if got, want := images(w), "web-0=b web-1=b web-2=b"; got != want {
		t.Errorf("pods %s, want %s", got, want)
	}
	t.Log(strings.Join(w.trace, "\n"))
}
