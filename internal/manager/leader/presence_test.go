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
	"k8s.io/client-go/rest"
)

// leaseAPI is an API server that serves Leases only.
type leaseAPI struct {
	mu      sync.Mutex
	version int
	stored  map[string]*coordinationv1.Lease
	refuses bool
}

func (s *leaseAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
func startProcess(t *testing.T, s http.Handler, identity string) (p *ProcessLease, log *syncBuffer, stop func()) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	log = &syncBuffer{}
	own := Election{Enabled: true, Name: "shop-process", Namespace: "home", Identity: identity, LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 5 * time.Millisecond}
	p = must.Get(newProcessLease(own, "shop", &rest.Config{Host: server.URL}, slog.New(slog.NewTextHandler(log, nil)))).In(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return p, log, stop
}

// Fault H10: of two processes without leader election, the second warns. Fault H13: one holds the Lease, and the
// other one takes over.
func TestProcessesDetectEachOther(t *testing.T) {
	s := &leaseAPI{stored: map[string]*coordinationv1.Lease{}}
	one, _, stopOne := startProcess(t, s, "one")
	must.Eventually(t, "the Lease", func() bool { return one.Held().Name == "shop-process" })
	another, log, _ := startProcess(t, s, "another")
	const warning = "another process of this program handles the same objects, so all work is done twice; stop one of them, or start them with --leader-elect"
	must.Eventually(t, "the warning", func() bool {
		return strings.Contains(log.String(), warning) && strings.Contains(log.String(), "process=one")
	})
	if another.Held().Name != "" || !another.Usable() {
		t.Error("both hold the Lease")
	}
	stopOne()
	must.Eventually(t, "the other one to take over", func() bool { return another.Held().Name == "shop-process" && one.Held().Name == "" })
	if n := strings.Count(log.String(), warning); n != 1 {
		t.Errorf("logged %d times", n)
	}
	var none *ProcessLease
	if none.Held().Name != "" || none.Usable() {
		t.Error("a nil ProcessLease holds a Lease")
	}
}

// Fault H10: a restarted process ignores the Lease of its killed predecessor.
func TestLeaseOfKilledProcessIsIgnored(t *testing.T) {
	killed, now := "killed", time.Now()
	s := &leaseAPI{stored: map[string]*coordinationv1.Lease{}}
	lease := &coordinationv1.Lease{}
	lease.Name, lease.ResourceVersion, lease.Spec.HolderIdentity = "shop-process", "1", &killed
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	lease.Spec.LeaseDurationSeconds = new(int32(1))
	s.stored["shop-process"] = lease
	_, log, stop := startProcess(t, s, "one")
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
	_, log, _ := startProcess(t, s, "one")
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
	p, log, stop := startProcess(t, refused, "one")
	must.Eventually(t, "the refusal", func() bool { return !p.Usable() })
	stop()
	if log.String() != "" {
		t.Error(log.String())
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
