package explore

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// shop is a parent with its children in a namespace of its own. It writes them as a controller does.
type shop struct {
	t         *testing.T
	cluster   *clusterServer
	namespace string
	planner   plan.Planner
	writer    *apply.Writer
	upToDate  map[string][2]uint64
	// onlyApply drops updates that replace applies.
	onlyApply bool
	mu        sync.Mutex
	// requests are the numbers of successful writes by verb.
	requests map[string]int
}

func newShop(t *testing.T, cluster *clusterServer, namespace string) *shop {
	t.Helper()
	cluster.createNamespace(t, namespace)
	created := cluster.send(t, call{method: http.MethodPost, path: configMaps.Path(namespace, ""), contentType: "application/json",
		body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"parent"}}`})
	text := must.Get(json.Marshal(created.body)).In(t)
	parent := must.Get(object.Parse(text)).In(t)
	s := &shop{t: t, cluster: cluster, namespace: namespace, upToDate: map[string][2]uint64{}, requests: map[string]int{}, planner: plan.Planner{
		Parent: parent, Namespaced: true, Selector: labels.Everything(), LastApplied: "setpoint.dev/applied-fields", OmitValues: true, Manager: manager}}
	for _, resource := range written {
		s.planner.Rules = append(s.planner.Rules, plan.Rule{Resource: resource, Method: plan.InPlace, Strategy: plan.ServerSide})
	}
	s.writer = apply.New(restClient(t), apply.Options{Observe: func(_ object.Resource, verb, outcome string, _ time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if outcome == "ok" && verb != "get" {
			s.requests[verb]++
		}
	}})
	return s
}

func restClient(t *testing.T) rest.Interface {
	t.Helper()
	config := must.Get(clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))).In(t)
	config.QPS = -1
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	return must.Get(rest.UnversionedRESTClientFor(config)).In(t)
}

// maxPasses is how many plans a response may take: after a write, what the server stores may differ once.
const maxPasses = 4

// reconcile writes until there is nothing to do. Children that the server rejects stay as they are.
func (s *shop) reconcile(response []json.RawMessage) {
	s.t.Helper()
	desired, _, err := s.planner.Desired(response)
	must.Succeed(s.t, err)
	for range maxPasses {
		p := must.Get(s.planner.Changes(s.observed(), desired, func(o *object.Object, digest uint64) bool {
			return s.upToDate[o.UID()] == [2]uint64{contentOf(o), digest}
		})).In(s.t)
		if s.write(p) == 0 {
			return
		}
	}
	s.t.Error("does not converge")
}

// write returns how many children were written.
func (s *shop) write(p plan.Plan) (count int) {
	for _, stage := range p.Stages {
		for i := range stage {
			if s.onlyApply {
				stage[i].Update = nil
			}
		}
	}
	for _, result := range s.writer.ApplyPlan(s.t.Context(), p) {
		if result.Err == nil {
			s.upToDate[result.Stored.UID()] = [2]uint64{contentOf(result.Stored), result.Action.Desired}
			count++
		}
	}
	return count
}

// contentOf leaves out the status where it can.
func contentOf(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return o.IntentDigest()
	}
	return o.Digest()
}

func (s *shop) observed() (all []*object.Object) {
	for _, resource := range written {
		o, err := s.writer.Get(s.t.Context(), resource, s.namespace, "a")
		if apply.NotFound(err) {
			continue
		}
		must.Succeed(s.t, err)
		all = append(all, o)
	}
	return all
}

// state returns the children, without what the server sets anew for each object, and the owners of their fields.
func (s *shop) state() map[string]any {
	all := map[string]any{}
	for kind, resource := range written {
		got := s.cluster.send(s.t, call{method: http.MethodGet, path: resource.Path(s.namespace, "a")})
		if got.code != http.StatusOK {
			all[kind] = got.code
			continue
		}
		owners := s.ownersIn(got.body)
		s.normalize(got.body)
		all[kind] = map[string]any{"object": got.body, "owners": owners}
	}
	return all
}

// ownersIn returns the paths of the fields of each manager. Setpoint's has them by any operation.
func (s *shop) ownersIn(o map[string]any) map[string][]string {
	metadata := o["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	owners := map[string][]string{}
	for _, e := range entries {
		entry := e.(map[string]any)
		name := fmt.Sprint(entry["manager"])
		if !slices.Contains([]string{manager, "others", "applier", "scaler"}, name) {
			continue
		}
		if name != manager {
			name = fmt.Sprint(name, " ", entry["operation"], " ", entry["subresource"])
		}
		owners[name] = slices.Compact(slices.Sorted(slices.Values(append(owners[name], s.pathsIn("", entry["fieldsV1"].(map[string]any))...))))
	}
	return owners
}

func (s *shop) pathsIn(path string, fields map[string]any) (paths []string) {
	if _, itself := fields["."]; itself || len(fields) == 0 {
		paths = append(paths, path)
	}
	for name, below := range fields {
		if name != "." {
			paths = append(paths, s.pathsIn(path+" "+strings.ReplaceAll(name, s.planner.Parent.UID(), "@parent"), below.(map[string]any))...)
		}
	}
	return paths
}

func (s *shop) normalize(o map[string]any) {
	delete(o, "status")
	metadata := o["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "namespace", "managedFields", "ownerReferences"} {
		delete(metadata, name)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, plan.AppliedAnnotation)
	delete(annotations, "deployment.kubernetes.io/revision")
	if spec, isObject := o["spec"].(map[string]any); isObject {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
		ports, _ := spec["ports"].([]any)
		for _, port := range ports {
			delete(port.(map[string]any), "nodePort")
		}
	}
}

// story makes the responses of a hook, and the writes of others in between.
type story struct {
	*rand.Rand
	desired []map[string]any
	// edited describes the latest write of others.
	edited string
}

// next returns the next response. Most have other values in the same fields.
func (w *story) next() (response []json.RawMessage) {
	if w.desired == nil || w.IntN(5) == 0 {
		var all []any
		if err := json.Unmarshal([]byte(children), &all); err != nil {
			panic(err)
		}
		w.desired = nil
		for _, o := range all {
			desired := w.some(o).(map[string]any)
			desired["metadata"].(map[string]any)["name"] = "a"
			w.desired = append(w.desired, desired)
		}
	} else {
		for _, o := range w.desired {
			w.change(o)
		}
	}
	for _, o := range w.desired {
		text, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		response = append(response, text)
	}
	return response
}

// some returns a value with some of the members whose names end with ?.
func (w *story) some(value any) any {
	switch v := value.(type) {
	case map[string]any:
		chosen := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			always, optional := strings.CutSuffix(name, "?")
			if !optional || w.IntN(2) == 0 {
				chosen[always] = w.some(v[name])
			}
		}
		return chosen
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = w.some(v[i])
		}
		return items
	}
	return value
}

// change changes some values.
func (w *story) change(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			_, isObject := v[name].(map[string]any)
			if choices := values[name]; choices != nil && !isObject && w.IntN(6) == 0 {
				v[name] = choices[w.IntN(len(choices))]
			}
			w.change(v[name])
		}
	case []any:
		for _, item := range v {
			w.change(item)
		}
	}
}

// edit returns a write of others, or none.
func (w *story) edit(turn int) func(s *shop) {
	if w.edited = "nothing"; turn == 0 || w.IntN(2) == 0 {
		return func(*shop) {}
	}
	e := edits[w.IntN(len(edits))]
	w.edited = fmt.Sprint(e)
	c := call{method: http.MethodPatch, contentType: "application/merge-patch+json", query: url.Values{"fieldManager": {e.manager}}, body: e.body}
	switch e.subresource {
	case "apply":
		c.contentType = "application/apply-patch+yaml"
		c.query.Set("force", "true")
	case "":
	default:
		c.path = "/" + e.subresource
	}
	return func(s *shop) {
		own := c
		own.path = written[e.kind].Path(s.namespace, "a") + c.path
		s.cluster.send(s.t, own)
	}
}
