package explore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/environment"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The kinds with models.
var (
	pods         = apiservertest.Pods
	deployments  = apiservertest.Deployments
	replicaSets  = object.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true, Status: true}
	statefulSets = object.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet", Namespaced: true, Status: true}
	jobs         = object.Resource{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true, Status: true}
	modeled      = []object.Resource{pods, deployments, replicaSets, statefulSets, jobs}
)

// scenario is an object, and edits of it in the order in which a random run makes some of them.
type scenario struct {
	name     string
	resource object.Resource
	body     string
	edits    []string // merge patches; "delete" deletes
	// view returns what of an object a model is about.
	view func(o map[string]any) string
}

func scenarios() []scenario {
	template := `"template":{"metadata":{"labels":{"a":"%[1]s"}},"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"one"}]}}`
	workload := `{"apiVersion":"apps/v1","kind":"%s","metadata":{"name":"x"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"x"}},` + fmt.Sprintf(template, "x") + `}}`
	scaling := []string{`{"spec":{"replicas":3}}`, `{"spec":{"replicas":1}}`, `{"spec":{"replicas":0}}`, `{"spec":{"replicas":2}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"n":"%d"}}}}}`, `{"metadata":{"labels":{"n":"%d"}}}`, "delete"}
	return []scenario{
		{"pod", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"one"}]}}`,
			[]string{`{"metadata":{"labels":{"n":"%d"}}}`, `{"metadata":{"finalizers":["example.com/a"]}}`, `{"metadata":{"finalizers":null}}`, "delete"}, podView},
		{"deployment", deployments, fmt.Sprintf(workload, "Deployment"), scaling, workloadView},
		{"replica set", replicaSets, fmt.Sprintf(workload, "ReplicaSet"), scaling, workloadView},
		{"stateful set", statefulSets, fmt.Sprintf(workload, "StatefulSet"), scaling, workloadView},
		{"stateful set by twos", statefulSets, strings.Replace(fmt.Sprintf(workload, "StatefulSet"), `"replicas":2`,
			`"replicas":3,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}}`, 1), scaling, workloadView},
		{"job", jobs, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"completions":2,"parallelism":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"one"}]}}}}`,
			[]string{`{"spec":{"suspend":true}}`, `{"spec":{"suspend":false}}`, `{"spec":{"parallelism":2}}`, `{"metadata":{"labels":{"n":"%d"}}}`}, jobView},
	}
}

// TestModelsAllowWhatHappens makes random edits in the control plane, and compares every version of the object that
// a watch shows with what the model of its kind allows.
func TestModelsAllowWhatHappens(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	for i := range max(1, *seeds/2) {
		for _, s := range scenarios() {
			seed := *first + uint64(i)
			t.Run(fmt.Sprint(s.name, " ", seed), func(t *testing.T) {
				t.Parallel()
				compareTrace(t, cluster, s, seed)
			})
		}
	}
}

// editsPerTrace is the number of random edits.
const editsPerTrace = 5

func compareTrace(t *testing.T, cluster *clusterServer, s scenario, seed uint64) {
	namespace := fmt.Sprint("trace-", strings.ReplaceAll(s.name, " ", "-"), "-", seed)
	cluster.createNamespace(t, namespace)
	cluster.await(t, "the ServiceAccount without which no pod is admitted", func() bool {
		return cluster.send(t, call{method: http.MethodGet, path: "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"}).code == http.StatusOK
	})
	watched := cluster.watch(t, s.resource, namespace)
	m := newModel(t, s, namespace)
	random := rand.New(rand.NewPCG(seed, 1))
	create := call{method: http.MethodPost, path: s.resource.Path(namespace, ""), contentType: "application/json", body: s.body}
	m.edit(create)
	wantStored(t, cluster.send(t, create))
	m.follow(watched, cluster, random.IntN(2) == 0)
	for n := range editsPerTrace {
		c := s.edit(random, namespace, n)
		m.edit(c)
		code := cluster.send(t, c).code
		if code == http.StatusNotFound {
			return // It is deleted.
		}
		// At times the next edit comes at once, and at times when nothing changes any more.
		m.follow(watched, cluster, random.IntN(2) == 0)
	}
	m.follow(watched, cluster, true)
	for began := time.Now(); m.unexplained && time.Since(began) < time.Minute; {
		m.follow(watched, cluster, true) // The version that comes after it may be late.
	}
	if m.unexplained {
		t.Fatalf("the control plane rests where no way of the model leads:\n  %s", strings.Join(m.seen, "\n  "))
	}
}

func wantStored(t *testing.T, o outcome) {
	t.Helper()
	if o.code >= http.StatusBadRequest {
		t.Fatalf("%v", o)
	}
}

// edit returns a random edit.
func (s *scenario) edit(random *rand.Rand, namespace string, n int) call {
	body := s.edits[random.IntN(len(s.edits))]
	if body == "delete" {
		return call{method: http.MethodDelete, path: s.resource.Path(namespace, "x"), contentType: "application/json", body: `{"propagationPolicy":"Background"}`}
	}
	if strings.Contains(body, "%d") {
		body = fmt.Sprintf(body, n)
	}
	return call{method: http.MethodPatch, path: s.resource.Path(namespace, "x"), contentType: "application/merge-patch+json", body: body}
}

// model is what the models allow: all states that are compatible with what has been seen. Edits that were made but
// not seen yet are in pending, in order.
type model struct {
	t           *testing.T
	scenario    scenario
	server      *apiserver.Server
	environment *environment.Environment
	// frontier are the states after each number of edits, by the objects in them.
	frontier map[string]point
	// before are the frontiers of the last views, the latest first.
	before []map[string]point
	edits  []call
	seen   []string
	// skipped counts the versions that no way leads to; unexplained reports whether the latest is one.
	skipped     int
	unexplained bool
}

// maxSkipped is how many versions of a trace may be the reports of a controller whose cache is old.
const maxSkipped = 2

// point is a state of the model after some of the edits.
type point struct {
	state *apiserver.State
	edits int
}

func newModel(t *testing.T, s scenario, namespace string) *model {
	t.Helper()
	server := apiservertest.New(t, modeled, "", namespace)
	m := &model{t: t, scenario: s, server: server, environment: environment.New(server)}
	m.frontier = map[string]point{"": {state: server.Empty()}}
	return m
}

// edit records that an edit is made: it lands some time.
func (m *model) edit(c call) { m.edits = append(m.edits, c) }

// follow compares the versions that a watch shows, until the object rests or, if it need not rest, until the first.
func (m *model) follow(watched <-chan map[string]any, cluster *clusterServer, rest bool) {
	quiet := 1500 * time.Millisecond
	if !rest {
		quiet = 20 * time.Millisecond
	}
	for {
		select {
		case o := <-watched:
			m.observe(o)
		case <-time.After(quiet):
			return
		}
	}
}

// observe keeps the states that show what was seen.
func (m *model) observe(o map[string]any) {
	view := "gone"
	if o["type"] != "DELETED" {
		view = m.scenario.view(o["object"].(map[string]any))
	}
	if len(m.seen) > 0 && m.seen[len(m.seen)-1] == view {
		return
	}
	m.seen = append(m.seen, view)
	next := m.showing(view, m.frontier)
	for _, before := range m.before {
		// A controller whose cache is old reports once more what was before. The models leave that out.
		if len(next) == 0 {
			if next = m.showing(view, before); len(next) > 0 {
				maps.Copy(next, m.frontier)
			}
		}
	}
	if m.unexplained = len(next) == 0; m.unexplained && m.skipped < maxSkipped {
		// A cache that lacks a pod reports fewer for a moment. The version after it has to be allowed.
		m.skipped++
		return
	}
	if len(next) == 0 {
		m.t.Fatalf("the control plane goes\n  %s\nThe model knows no way to the last one. From the one before it allows\n  %s",
			strings.Join(m.seen, "\n  "), strings.Join(m.allowed(), "\n  "))
	}
	m.before = append([]map[string]point{m.frontier}, m.before[:min(len(m.before), 2)]...)
	m.frontier = next
}

// showing returns the states that can follow and look like a view.
func (m *model) showing(view string, from map[string]point) map[string]point {
	next := map[string]point{}
	for _, p := range m.reachable(from) {
		if m.viewOf(p.state) == view {
			next[m.key(p)] = p
		}
	}
	return next
}

// maxSteps bounds how many steps of a model one version of a watch may stand for.
const maxSteps = 12

// reachable returns all states that can follow.
func (m *model) reachable(from map[string]point) map[string]point {
	all, latest := maps.Clone(from), from
	for range maxSteps {
		next := map[string]point{}
		for _, p := range latest {
			for _, after := range m.next(p) {
				if key := m.key(after); all[key].state == nil {
					all[key], next[key] = after, after
				}
			}
		}
		latest = next
	}
	return all
}

// next returns the states after one step: the next edit, or one of the environment.
func (m *model) next(p point) []point {
	var after []point
	if p.edits < len(m.edits) {
		state, response := m.server.Do(p.state, m.edits[p.edits].request(m.t, "http://memory"))
		newOutcome(m.t, response)
		after = append(after, point{state, p.edits + 1})
	}
	for _, change := range append(m.environment.Steps(p.state), m.server.Collect(p.state)...) {
		after = append(after, point{change.State, p.edits})
	}
	return after
}

// counters are the parts of objects that count writes, and objects of one name.
var counters = regexp.MustCompile(`"resourceVersion":"\d+"|-4e70-8e70-[0-9a-f]{12}`)

func (m *model) key(p point) string {
	text := fmt.Sprint(p.edits)
	for o := range p.state.Objects() {
		text += counters.ReplaceAllString(string(o.JSON()), "")
	}
	return text
}

func (m *model) viewOf(state *apiserver.State) string {
	for o := range state.Objects() {
		if o.GroupKind() == m.scenario.resource.GroupKind() {
			return m.scenario.view(decoded(o.JSON()))
		}
	}
	return "gone"
}

// decoded decodes a stored object, which is valid.
func decoded(data []byte) map[string]any {
	var fields map[string]any
	_ = json.Unmarshal(data, &fields)
	return fields
}

func (m *model) allowed() []string {
	views := map[string]bool{}
	for _, p := range m.reachable(m.frontier) {
		views[m.viewOf(p.state)] = true
	}
	return slices.Sorted(maps.Keys(views))
}

// watch returns the events of a kind in a namespace.
func (s *clusterServer) watch(t *testing.T, resource object.Resource, namespace string) <-chan map[string]any {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := call{method: http.MethodGet, path: resource.Path(namespace, ""), query: url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=x"}}}
	response, err := s.client.Do(c.request(t, s.host).WithContext(ctx)) //nolint:bodyclose // The goroutine below closes it.
	must.Succeed(t, err)
	events := make(chan map[string]any, 100)
	go func() {
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadBytes('\n')
			var event map[string]any
			if err != nil || json.Unmarshal(line, &event) != nil {
				return
			}
			events <- event
		}
	}()
	return events
}

// The views: what of an object its model is about.

func podView(o map[string]any) string {
	status, spec := members(o, "status"), members(o, "spec")
	return fmt.Sprintf("phase %v, ready %v, on a node %t, deleting %t, finalizers %v",
		status["phase"], conditionOf(status, "Ready") == "True", spec["nodeName"] != nil, isDeleting(o), members(o, "metadata")["finalizers"])
}

func workloadView(o map[string]any) string {
	status := members(o, "status")
	return fmt.Sprintf("replicas %v, updated %v, ready %v, observed %t, Available %s, generation %v, deleting %t",
		zero(status["replicas"]), zero(status["updatedReplicas"]), zero(status["readyReplicas"]),
		status["observedGeneration"] == members(o, "metadata")["generation"], conditionOf(status, "Available"), members(o, "metadata")["generation"], isDeleting(o))
}

func jobView(o map[string]any) string {
	status := members(o, "status")
	return fmt.Sprintf("active %v, succeeded %v, failed %v, Complete %s, Failed %s, Suspended %s, generation %v",
		zero(status["active"]), zero(status["succeeded"]), zero(status["failed"]),
		conditionOf(status, "Complete"), conditionOf(status, "Failed"), conditionOf(status, "Suspended"), members(o, "metadata")["generation"])
}

func members(o map[string]any, name string) map[string]any {
	below, _ := o[name].(map[string]any)
	return below
}

func isDeleting(o map[string]any) bool { return members(o, "metadata")["deletionTimestamp"] != nil }

func zero(n any) any {
	if n == nil {
		return float64(0)
	}
	return n
}

func conditionOf(status map[string]any, name string) string {
	list, _ := status["conditions"].([]any)
	for _, each := range list {
		if condition, _ := each.(map[string]any); condition["type"] == name {
			text, _ := condition["status"].(string)
			return text
		}
	}
	return "unknown"
}
