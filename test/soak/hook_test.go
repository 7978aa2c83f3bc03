package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// hook answers for all controllers. In bad weather it does all that hooks do
// when they are not well.
type hook struct {
	tally   *tally
	ledger  *ledger
	address string

	mu     sync.Mutex
	dice   *rand.Rand
	bad    bool
	server *http.Server
}

// Ports that no system hands out by itself, so that nobody takes the hook's while
// it is down.
const (
	firstPort = 22_000
	lastPort  = 22_999
)

func newHook(t *testing.T, dice *rand.Rand, count *tally, known *ledger) *hook {
	t.Helper()
	h := &hook{dice: dice, tally: count, ledger: known}
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

// away takes the hook down for a while.
func (h *hook) away(ctx context.Context, d time.Duration) error {
	h.down()
	_ = pause(ctx, d)
	return h.up()
}

func (h *hook) weather(bad bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad = bad
}

// mishap is something that goes wrong with one call.
type mishap struct {
	name string
	// share is how many of a thousand calls it befalls.
	share int
	do    func(h *hook, w http.ResponseWriter, r *http.Request)
}

func mishaps() []mishap {
	return []mishap{
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
			if pause(r.Context(), time.Duration(h.roll(2000))*time.Millisecond) == nil {
				h.answer(w, r)
			}
		}},
		{"hook answers nonsense", 40, (*hook).nonsense},
		{"hook resets the connection", 20, func(_ *hook, w http.ResponseWriter, _ *http.Request) { reset(w) }},
		{"hook answers half", 20, func(_ *hook, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"status":{"ready":1},"children":[`)
		}},
	}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.tally.note("hook calls")
	luck := h.roll(1000)
	h.mu.Lock()
	bad := h.bad
	h.mu.Unlock()
	for _, m := range mishaps() {
		if luck -= m.share; bad && luck < 0 {
			h.tally.note(m.name)
			m.do(h, w, r)
			return
		}
	}
	h.answer(w, r)
}

func (h *hook) roll(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dice.IntN(n)
}

// nonsense is an answer that must not be acted on: least of all taken for "no
// children".
func (h *hook) nonsense(w http.ResponseWriter, r *http.Request) {
	answers := []string{
		``, `{}`, `null`, `[]`, `{"children":null}`, `{"childern":[]}`, `{"children":[null]}`, `{"children":[],"children":[]`,
		`{"status":{},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}]}`,
		`{"status":{},"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"undeclared"}}]}`,
		`<html><body>the proxy is sorry</body></html>`,
	}
	if slices.Contains([]string{"/handle", "/review"}, r.URL.Path) {
		// An empty object is a good response of a handler: there is nothing to write.
		answers = []string{``, `null`, `[]`, `{"statsu":{}}`, `{"status":[]}`, `{"allowed":"yes"}`, `<html><body>the proxy is sorry</body></html>`}
	}
	fmt.Fprint(w, answers[h.roll(len(answers))])
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

// question is what the hook is asked.
type question struct {
	Parent      *parent
	Object      *parent
	Children    groups
	Attachments groups
	Finalizing  bool
	// Handler and Review name what is called of bells.
	Handler, Review string
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
	Metadata struct{ Name string }
	Data     map[string]string
}

func (h *hook) answer(w http.ResponseWriter, r *http.Request) {
	var asked question
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var reply map[string]any
	switch {
	case asked.Handler != "":
		reply = asked.handle(h.ledger)
	case asked.Review != "":
		reply = asked.review()
	case asked.Object != nil:
		reply = asked.decorate()
	case asked.Finalizing:
		reply = asked.takeDown()
	default:
		reply = asked.sync()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply) // the caller may be dead
}

func (q *question) sync() map[string]any {
	return map[string]any{"status": status(q.Parent, q.Children), "children": objects(q.Parent, q.Parent.wishes())}
}

// takeDown leaves all children but the last, until none is left.
func (q *question) takeDown() map[string]any {
	there := map[string]bool{}
	for _, c := range q.Children.all() {
		there[c.Metadata.Name] = true
	}
	var left []wish
	for _, w := range q.Parent.wishes() {
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

func (q *question) decorate() map[string]any {
	if q.Finalizing {
		return map[string]any{
			"labels": map[string]any{"glow": nil}, "attachments": []any{}, "finalized": len(q.Attachments.all()) == 0,
		}
	}
	return map[string]any{
		"labels":      map[string]any{"glow": q.Object.Spec.Value},
		"status":      status(q.Object, q.Attachments),
		"attachments": objects(q.Object, q.Object.wishes()),
	}
}

func objects(p *parent, wishes []wish) []any {
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
	for _, w := range p.wishes() {
		if values[w.kind+" "+w.name] == w.value {
			ready++
		}
	}
	return map[string]any{"ready": ready, "value": p.Spec.Value}
}
