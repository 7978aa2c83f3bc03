package environment_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/environment"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var statefulSets = object.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet", Namespaced: true, Status: true}

// kinds are those with models, and one with conditions.
var kinds = []object.Resource{
	apiservertest.Pods,
	apiservertest.Deployments,
	{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true, Status: true},
	statefulSets,
	{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true, Status: true},
	{Version: "v1", Plural: "services", Kind: "Service", Namespaced: true, Status: true},
	{Version: "v1", Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true, Status: true},
}

// TestWayToRest follows the steps that are no failures to the end, and compares them and the failures on the way.
func TestWayToRest(t *testing.T) {
	const spec = `containers: [{name: c, image: i}]`
	for _, test := range []struct{ object, steps, failures string }{
		{
			`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: default}, spec: {` + spec + `}}`,
			"is scheduled, starts, becomes ready", "fails, becomes not ready",
		},
		{
			`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: default}, spec: {restartPolicy: Never, ` + spec + `}}`,
			"is scheduled, starts, becomes ready, succeeds", "fails, becomes not ready",
		},
		{
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: default}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {` + spec + `}}}}`,
			"is observed by its controller, gets a pod, gets a ready pod", "exceeds its progress deadline, loses a ready pod",
		},
		{
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x, namespace: default}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {` + spec + `}}}}`,
			"is observed by its controller, gets a pod, gets a ready pod", "loses a ready pod",
		},
		{
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x, namespace: default}, spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {` + spec + `}}}}`,
			"is observed by its controller, gets a pod, gets a ready pod, gets a pod, gets a ready pod", "loses a ready pod",
		},
		{
			`{apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: default}, spec: {template: {spec: {restartPolicy: Never, ` + spec + `}}}}`,
			"has as many pods as it may, has a pod that succeeds, counts pods that have succeeded, completes", "has a pod that fails",
		},
		{
			`{apiVersion: v1, kind: Service, metadata: {name: x, namespace: default}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`,
			"gets an address", "",
		},
		{
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x, namespace: default}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			"is bound", "loses its volume",
		},
	} {
		server, env := newServer(t)
		state := create(t, server, test.object)
		steps, failures, _ := walk(t, env, state)
		if steps != test.steps || failures != test.failures {
			t.Errorf("%s\n%s; %s", test.object, steps, failures)
		}
	}
}

// A StatefulSet may lose as many outdated pods at once as may be unavailable, 1 by default.
func TestStatefulSetsUpdateSeveralPodsAtOnce(t *testing.T) {
	const lost = "loses an outdated pod"
	for strategy, most := range map[string]int{
		"{}": 1, "{maxUnavailable: 2}": 2, `{maxUnavailable: "50%"}`: 2, `{maxUnavailable: "1%"}`: 1, "{maxUnavailable: 9}": 4,
	} {
		server, env := newServer(t)
		state := create(t, server, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x, namespace: default}, spec: {replicas: 4, updateStrategy: {rollingUpdate: `+
			strategy+`}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
		_, _, state = walk(t, env, state)
		state = patch(t, server, state, statefulSets, `{"spec": {"template": {"metadata": {"labels": {"new": "1"}}}}}`)
		state = env.Steps(state)[0].State
		for n := range most + 1 {
			next := slices.DeleteFunc(env.Steps(state), func(c apiserver.Change) bool { return c.Name != lost })
			if may := len(next) > 0; may != (n < most) {
				t.Errorf("%s: after %d lost pods, it may lose another: %t", strategy, n, may)
			}
			if len(next) > 0 {
				state = next[0].State
			}
		}
	}
}

func newServer(t *testing.T) (*apiserver.Server, *environment.Environment) {
	t.Helper()
	server := apiservertest.New(t, kinds, "")
	return server, environment.New(server)
}

func create(t *testing.T, server *apiserver.Server, text string) *apiserver.State {
	t.Helper()
	o := apiservertest.Parse(t, text)
	resource, _ := server.Resource(o.GroupKind())
	state, _, err := server.Send(server.Empty(), "test", apiserver.CreationOf(resource, o))
	must.Succeed(t, err)
	return state
}

// patch merges a patch into the object x.
func patch(t *testing.T, server *apiserver.Server, state *apiserver.State, kind object.Resource, text string) *apiserver.State {
	t.Helper()
	after, _, err := server.Send(state, "test", apiserver.Request{Method: http.MethodPatch, Type: types.MergePatchType, Resource: kind,
		Namespace: "default", Name: "x", Body: []byte(text)})
	must.Succeed(t, err)
	return after
}

// walk takes the first step that is no failure until there is none.
func walk(t *testing.T, env *environment.Environment, state *apiserver.State) (steps, failures string, rest *apiserver.State) {
	t.Helper()
	var taken, failed []string
	for range 20 {
		next := env.Steps(state)
		for _, change := range next {
			if change.Failure && !slices.Contains(failed, change.Name) {
				failed = append(failed, change.Name)
			}
		}
		next = slices.DeleteFunc(next, func(c apiserver.Change) bool { return c.Failure })
		if len(next) == 0 {
			return strings.Join(taken, ", "), strings.Join(failed, ", "), state
		}
		taken = append(taken, next[0].Name)
		state = next[0].State
	}
	t.Fatalf("the environment does not come to rest: %q", taken)
	return "", "", nil
}
