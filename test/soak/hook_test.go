package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hook serves all controllers. While it is faulty, it fails in all the ways in which
// hooks fail.
type hook struct {
	tally    *counters
	ledger   *expectations
	rollouts *rollouts
	address  string

	mu     sync.Mutex
	rand   *rand.Rand
	faulty bool
	server *http.Server
}

// Ports below the ephemeral range, so that no other process gets the hook's port while
// it is down.
const (
	firstPort = 22_000
	lastPort  = 22_999
)

func newHook(t *testing.T, rnd *rand.Rand, count *counters, known *expectations, rolledOut *rollouts) *hook {
	t.Helper()
	h := &hook{rand: rnd, tally: count, ledger: known, rollouts: rolledOut}
	for port := firstPort; port <= lastPort && h.server == nil; port++ {
		h.address = fmt.Sprintf("127.0.0.1:%d", port)
		_ = h.up() // the port may be taken
	}
	if h.server == nil {
		t.Fatal("no port is free for the hook")
	}
	t.Cleanup(h.down)
	return h
}

func (h *hook) url() string { return "http://" + h.address }

func (h *hook) up() error {
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		return err
	}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(listener) }(h.server)
	return nil
}

func (h *hook) down() { _ = h.server.Close() }

// downFor takes the hook down for a while.
func (h *hook) downFor(ctx context.Context, d time.Duration) error {
	h.down()
	_ = pause(ctx, d)
	return h.up()
}

func (h *hook) setFaulty(bad bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faulty = bad
}

// hookFault is something that goes wrong with one call.
type hookFault struct {
	name string
	// perMille is how many of a thousand calls it befalls.
	perMille int
	do       func(h *hook, w http.ResponseWriter, r *http.Request)
}

func hookFaults() []hookFault {
	return []hookFault{
		{"hook answers 500", 40, func(_ *hook, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "not well", http.StatusInternalServerError)
		}},
		{"hook answers 429", 15, func(_ *hook, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "busy", http.StatusTooManyRequests)
		}},
		{"hook answers 429 with Retry-After", 15, func(_ *hook, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusTooManyRequests)
		}},
		{"hook is slow", 40, func(h *hook, w http.ResponseWriter, r *http.Request) {
			if pause(r.Context(), time.Duration(h.random(2000))*time.Millisecond) == nil {
				h.respond(w, r)
			}
		}},
		{"hook answers nonsense", 40, (*hook).invalidResponse},
		{"hook resets the connection", 20, func(_ *hook, w http.ResponseWriter, _ *http.Request) { reset(w) }},
		{"hook answers half", 20, func(_ *hook, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"status":{"ready":1},"children":[`)
		}},
	}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.tally.add("hook calls")
	n := h.random(1000)
	h.mu.Lock()
	bad := h.faulty
	h.mu.Unlock()
	for _, m := range hookFaults() {
		if n -= m.perMille; bad && n < 0 {
			h.tally.add(m.name)
			m.do(h, w, r)
			return
		}
	}
	h.respond(w, r)
}

func (h *hook) random(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rand.IntN(n)
}

// invalidResponse sends a response that Setpoint must not apply, least of all as "no
// children".
func (h *hook) invalidResponse(w http.ResponseWriter, r *http.Request) {
	responses := []string{
		``, `{}`, `null`, `[]`, `{"children":null}`, `{"childern":[]}`, `{"children":[null]}`, `{"children":[],"children":[]`,
		`{"status":{},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}]}`,
		`{"status":{},"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"undeclared"}}]}`,
		`<html><body>the proxy is sorry</body></html>`,
	}
	if slices.Contains([]string{"/handle", "/review"}, r.URL.Path) {
		// An empty object is a good response of a handler: there is nothing to write.
		responses = []string{``, `null`, `[]`, `{"statsu":{}}`, `{"status":[]}`, `{"allowed":"yes"}`, `<html><body>the proxy is sorry</body></html>`}
	}
	fmt.Fprint(w, responses[h.random(len(responses))])
}

// reset ends a connection as a crash does.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// hookRequest is the request that the hook decodes.
type hookRequest struct {
	Parent      *parent
	Object      *parent
	Children    groups
	Attachments groups
	Finalizing  bool
	// Handler and Webhook name what is called for bells.
	Handler, Webhook string
}

// groups are children by kind and key.
type groups map[string]map[string]child

func (g groups) all() []child {
	var all []child
	for _, group := range g {
		for _, c := range group {
			all = append(all, c)
		}
	}
	return all
}

type child struct {
	Kind     string
	Metadata struct{ Name, UID string }
	Data     map[string]string
}

func (h *hook) respond(w http.ResponseWriter, r *http.Request) {
	var request hookRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var response map[string]any
	switch {
	case strings.HasPrefix(r.URL.Path, "/rollout/"):
		version := strings.TrimPrefix(r.URL.Path, "/rollout/")
		h.rollouts.note(version, &request)
		if response = request.barn(version); response == nil {
			http.Error(w, "broken in "+version, http.StatusInternalServerError)
			return
		}
	case request.Handler != "":
		response = request.handle(h.ledger)
	case request.Webhook != "":
		response = request.review()
	case request.Object != nil:
		response = request.decorate()
	case r.URL.Path == "/customize":
		response = map[string]any{"relatedResources": []any{map[string]any{
			"apiVersion": "camp.soak.test/v1", "resource": "forecasts", "namespace": request.Parent.Metadata.Namespace,
		}}}
	case request.Finalizing:
		response = request.finalize()
	default:
		response = request.sync()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response) // the caller may be dead
}

func (q *hookRequest) sync() map[string]any {
	return map[string]any{"status": status(q.Parent, q.Children), "children": objects(q.Parent, q.Parent.desiredChildren())}
}

// finalize leaves all children but the last, until none is left.
func (q *hookRequest) finalize() map[string]any {
	there := map[string]bool{}
	for _, c := range q.Children.all() {
		there[c.Metadata.Name] = true
	}
	var left []desiredChild
	for _, w := range q.Parent.desiredChildren() {
		if there[w.name] {
			left = append(left, w)
		}
	}
	return map[string]any{
		"status":    status(q.Parent, q.Children),
		"children":  objects(q.Parent, left[:max(0, len(left)-1)]),
		"finalized": len(there) == 0,
	}
}

func (q *hookRequest) decorate() map[string]any {
	if q.Finalizing {
		return map[string]any{
			"labels": map[string]any{"glow": nil}, "attachments": []any{}, "finalized": len(q.Attachments.all()) == 0,
		}
	}
	return map[string]any{
		"labels":      map[string]any{"glow": q.Object.Spec.Value},
		"status":      status(q.Object, q.Attachments),
		"attachments": objects(q.Object, q.Object.desiredChildren()),
	}
}

func objects(p *parent, wishes []desiredChild) []any {
	all := make([]any, len(wishes))
	for i, w := range wishes {
		all[i] = w.object(p)
	}
	return all
}

// status counts the children that are right.
func status(p *parent, observed groups) map[string]any {
	values := map[string]string{}
	for _, c := range observed.all() {
		values[c.Kind+" "+c.Metadata.Name] = c.Data["value"]
	}
	ready := 0
	for _, w := range p.desiredChildren() {
		if values[w.kind+" "+w.name] == w.value {
			ready++
		}
	}
	return map[string]any{"ready": ready, "value": p.Spec.Value}
}

// forbidden is a value that a review denies, and stamp the label that another adds.
const (
	forbidden  = "forbidden"
	stampLabel = "stamped"
)

// handle is what the three handlers of bells respond. The first has a ConfigMap, the
// second a field of the status beside the first one's, and the third lets go of a bell.
func (q *hookRequest) handle(known *expectations) map[string]any {
	p := q.Object
	switch q.Handler {
	case "ring":
		known.update(func(l *expectations) { l.rung[p.Metadata.UID] = true })
		return map[string]any{"status": map[string]any{"rung": p.Spec.Value}, "apply": objects(p, p.desiredChildren())}
	case "echo":
		return map[string]any{"status": map[string]any{"echo": p.Spec.Value}}
	}
	known.update(func(l *expectations) { l.dismissed[p.Metadata.UID] = true })
	return map[string]any{}
}

// review stamps each bell, and denies one with a forbidden value.
func (q *hookRequest) review() map[string]any {
	if q.Webhook == "stamp" {
		return map[string]any{"allowed": true, "patch": map[string]any{"metadata": map[string]any{"labels": map[string]any{stampLabel: "yes"}}}}
	}
	if q.Object.Spec.Value == forbidden {
		return map[string]any{"allowed": false, "message": "this value is forbidden"}
	}
	return map[string]any{"allowed": true}
}

// checkBell wants the latest value handled by both, and neither's write lost.
func (f *state) checkBell(who string, p *parent) {
	if v := p.Spec.Value; p.Status.Rung != v || p.Status.Echo != v {
		f.problem("%s has status %+v, want %q twice", who, p.Status, v)
	}
	if p.Metadata.Labels[stampLabel] != "yes" || p.Spec.Value == forbidden {
		f.problem("%s is stored without its reviews: labels %v, value %q", who, p.Metadata.Labels, p.Spec.Value)
	}
}

// checkBells wants every bell that is gone to have been dismissed before. The ledger is
// locked.
func (f *state) checkBells() {
	for uid := range f.ledger.rung {
		if f.parents[uid] == nil && !f.ledger.dismissed[uid] {
			f.problem("the bell with UID %s is gone, and its handler of deletions was not called with success", uid)
		}
	}
}

// awaitReviews waits until the API server asks for reviews: a bell that is stored before
// would be without them.
func (c *cluster) awaitReviews(t *testing.T) {
	t.Helper()
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "soak.test/v1", "kind": title(bell),
		"metadata": map[string]any{"generateName": "probe-", "namespace": namespace}, "spec": map[string]any{"value": forbidden},
	}}
	eventually(t, "reviews of bells", func(ctx context.Context) error {
		_, err := c.in(parentsOf(bell)).Create(ctx, probe.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a forbidden bell is not denied")
		}
		stored, err := c.in(parentsOf(bell)).Create(ctx, allowed(probe), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || stored.GetLabels()[stampLabel] != "yes" {
			return fmt.Errorf("an allowed bell is not stamped: %w", err)
		}
		return nil
	})
}

func allowed(probe *unstructured.Unstructured) *unstructured.Unstructured {
	o := probe.DeepCopy()
	_ = unstructured.SetNestedField(o.Object, "a", "spec", "value")
	return o
}
