package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// leaseAPI is an API server that serves Leases only.
type leaseAPI struct {
	mu       sync.Mutex
	version  int
	stored   map[string]*coordinationv1.Lease
	refuses  bool
	requests int
}

func (s *leaseAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	w.Header().Set("Content-Type", "application/json")
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	var sent coordinationv1.Lease
	_ = json.NewDecoder(r.Body).Decode(&sent) // What cannot be read is no Lease.
	have := s.stored[name]
	code, reason := 0, ""
	switch {
	case s.refuses:
		code, reason = 403, "Forbidden"
	case r.Method == http.MethodPost && s.stored[sent.Name] != nil:
		code, reason = 409, "AlreadyExists"
	case r.Method != http.MethodPost && have == nil:
		code, reason = 404, "NotFound"
	case r.Method == http.MethodPut && sent.ResourceVersion != have.ResourceVersion:
		code, reason = 409, "Conflict"
	case r.Method == http.MethodDelete:
		delete(s.stored, name)
	case r.Method != http.MethodGet:
		s.version++
		sent.ResourceVersion, sent.UID = strconv.Itoa(s.version), "1"
		s.stored[sent.Name], have = &sent, &sent
	}
	if code > 0 {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})
		return
	}
	_ = json.NewEncoder(w).Encode(have)
}

func (s *leaseAPI) holder(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored[name] == nil {
		return ""
	}
	return holderOf(s.stored[name])
}

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startProcess runs the process lease until the test ends or stop is called.
func startProcess(t *testing.T, s http.Handler, identity string) (log *syncBuffer, stop func()) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	log = &syncBuffer{}
	p := must.Get(NewProcessLease(Election{Name: "shop", Namespace: "home", Identity: identity}, nil, &rest.Config{Host: server.URL}, slog.New(slog.NewTextHandler(log, nil)))).In(t)
	p.interval = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return log, stop
}

// Fault H10: two processes without leader election warn about each other.
func TestProcessesDetectEachOther(t *testing.T) {
	s := &leaseAPI{stored: map[string]*coordinationv1.Lease{}}
	one, stopOne := startProcess(t, s, "one")
	must.Eventually(t, "the Lease", func() bool { return s.holder("shop-process") == "one" })
	another, _ := startProcess(t, s, "another")
	const warning = "another process of this program handles the same objects, so all work is done twice; stop one of them, or start them with --leader-elect"
	must.Eventually(t, "the second", func() bool {
		return strings.Contains(another.String(), warning) && strings.Contains(another.String(), "process=one")
	})
	must.Eventually(t, "the first", func() bool { return strings.Contains(one.String(), "process=another") })
	stopOne()
	must.Eventually(t, "the other one to take over", func() bool { return s.holder("shop-process") == "another" })
	if n := strings.Count(another.String(), warning); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// Fault H10: a restarted process ignores the Lease of its killed predecessor.
func TestLeaseOfKilledProcessIsIgnored(t *testing.T) {
	killed, now := "killed", time.Now()
	s := &leaseAPI{stored: map[string]*coordinationv1.Lease{}}
	lease := &coordinationv1.Lease{}
	lease.Name, lease.ResourceVersion, lease.Spec.HolderIdentity = "shop-process", "1", &killed
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	s.stored["shop-process"] = lease
	log, stop := startProcess(t, s, "one")
	must.Eventually(t, "the Lease", func() bool { return s.holder("shop-process") == "one" })
	stop()
	if s.holder("shop-process") != "" || log.String() != "" {
		t.Errorf("left %q, logged %s", s.holder("shop-process"), log.String())
	}
}

// Fault H10: a process beside an elected leader warns and leaves the leader's Lease alone.
// A process that may not use Leases stops trying.
func TestProcessBesideLeader(t *testing.T) {
	s := &leaseAPI{stored: map[string]*coordinationv1.Lease{}}
	log, _ := startProcess(t, s, "one")
	leader := "leader"
	must.Eventually(t, "the warning", func() bool {
		s.mu.Lock()
		lease := &coordinationv1.Lease{}
		lease.Name, lease.Spec.HolderIdentity = "shop", &leader
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		s.stored["shop"] = lease
		s.mu.Unlock()
		return strings.Contains(log.String(), "process=leader")
	})
	if s.holder("shop") != "leader" {
		t.Error("the leader lost its Lease")
	}

	refused := &leaseAPI{refuses: true}
	log, stop := startProcess(t, refused, "one")
	must.Eventually(t, "two requests", func() bool { refused.mu.Lock(); defer refused.mu.Unlock(); return refused.requests >= 2 })
	stop()
	if log.String() != "" {
		t.Error(log.String())
	}
}

// Fault H13: one of two processes holds the Lease, and the other one takes over.
func TestProcessLeaseHasOneHolder(t *testing.T) {
	s := &leaseAPI{stored: map[string]*coordinationv1.Lease{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	now := time.Now()
	present := func(identity string) *ProcessLease {
		p := must.Get(NewProcessLease(Election{Name: "shop", Namespace: "home", Identity: identity}, nil, &rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler))).In(t)
		p.now = func() time.Time { return now }
		return p
	}
	one, another := present("one"), present("another")
	changes := 0
	one.OnHeld = func() { changes++ }
	expect := func(step, first, second string, processes ...*ProcessLease) {
		t.Helper()
		for _, p := range processes {
			if err := p.sync(t.Context()); err != nil {
				t.Fatal(step, err)
			}
			p.notifyHeld()
		}
		if f, o := one.Held().Name, another.Held().Name; f != first || o != second {
			t.Errorf("%s: held as %q and %q", step, f, o)
		}
	}
	const lease = "shop-process"
	expect("the first one", lease, "", one)
	for range 3 {
		now = now.Add(processLeaseInterval)
		expect("both", lease, "", one, another)
	}
	now = now.Add(processLeaseExpiry * processLeaseInterval / 2)
	expect("the first one stopped, for a moment", lease, "", another)
	now = now.Add(time.Second)
	expect("for longer", "", "")
	now = now.Add(processLeaseExpiry * processLeaseInterval)
	expect("taken over", "", lease, another)
	expect("it goes on", "", lease, one)
	if changes != 2 {
		t.Errorf("OnHeld called %d times", changes)
	}
	s.mu.Lock()
	s.refuses = true
	s.mu.Unlock()
	if err := another.sync(t.Context()); err == nil || another.Held().Name != lease {
		t.Error("failed request", err)
	}
	var none *ProcessLease
	if none.Held() != (types.NamespacedName{}) {
		t.Error("a nil ProcessLease holds a Lease")
	}
}

func TestProcessLeaseName(t *testing.T) {
	name := func(namespaces ...string) string {
		return Election{Name: "shop"}.ProcessLeaseName(namespaces)
	}
	if name("a", "b") != name("b", "a") || name("a") == name("b") || name() != "shop-process" {
		t.Errorf("%s %s %s", name("a", "b"), name("a"), name())
	}
}
