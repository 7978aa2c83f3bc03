package leader

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// leaseAPI is an API server that serves Leases only, or responds with a status.
type leaseAPI struct {
	mu      sync.Mutex
	version int
	stored  map[string]*coordinationv1.Lease
	status  int
}

func newLeaseAPI() *leaseAPI { return &leaseAPI{stored: map[string]*coordinationv1.Lease{}} }

func (s *leaseAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status > 0 {
		http.Error(w, "no", s.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	var sent coordinationv1.Lease
	_ = json.NewDecoder(r.Body).Decode(&sent) // What cannot be read is no Lease.
	have := s.stored[name]
	code, reason := 0, ""
	switch {
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

func (s *leaseAPI) setStatus(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// setHolder sets the holder of a Lease, as another process does.
func (s *leaseAPI) setHolder(name, holder string, duration time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	lease := &coordinationv1.Lease{}
	lease.Name, lease.ResourceVersion, lease.Spec.HolderIdentity = name, strconv.Itoa(s.version), &holder
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new(int32(duration.Seconds())), &metav1.MicroTime{Time: time.Now()}
	s.stored[name] = lease
}

// startProcess runs the process lease until the test ends or stop is called.
func startProcess(t *testing.T, s http.Handler, identity string) (p *ProcessLease, logged func() string, stop func()) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log"))).In(t)
	t.Cleanup(func() { log.Close() })
	own := Election{Enabled: true, Name: "shop-process", Namespace: "home", Identity: identity, LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 5 * time.Millisecond}
	p = must.Get(newProcessLease(own, "shop", &rest.Config{Host: server.URL}, slog.New(slog.NewTextHandler(log, nil)))).In(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return p, func() string { return string(must.Get(os.ReadFile(log.Name())).In(t)) }, stop
}

// Fault H10: of two processes without leader election, the second warns. Fault H13: one holds the Lease, and the
// other one takes over.
func TestProcessesDetectEachOther(t *testing.T) {
	s := newLeaseAPI()
	one, _, stopOne := startProcess(t, s, "one")
	must.Eventually(t, "the Lease", func() bool { return one.Held().Name == "shop-process" })
	another, logged, _ := startProcess(t, s, "another")
	const warning = "another process of this program handles the same objects, so all work is done twice; stop one of them, or start them with --leader-elect"
	must.Eventually(t, "the warning", func() bool {
		return strings.Contains(logged(), warning) && strings.Contains(logged(), "process=one")
	})
	if another.Held().Name != "" || !another.Usable() {
		t.Error("both hold the Lease")
	}
	stopOne()
	must.Eventually(t, "the other one to take over", func() bool { return another.Held().Name == "shop-process" && one.Held().Name == "" })
	if n := strings.Count(logged(), warning); n != 1 {
		t.Errorf("logged %d times", n)
	}
	var none *ProcessLease
	if none.Held().Name != "" || none.Usable() {
		t.Error("a nil ProcessLease holds a Lease")
	}
}

// Fault H10: a restarted process ignores the Lease of its killed predecessor.
func TestLeaseOfKilledProcessIsIgnored(t *testing.T) {
	s := newLeaseAPI()
	s.setHolder("shop-process", "killed", time.Second)
	p, logged, stop := startProcess(t, s, "one")
	must.Eventually(t, "the Lease", func() bool { return p.Held().Name == "shop-process" }) // It knows that it has one to release.
	stop()
	if s.holder("shop-process") != "" || logged() != "" {
		t.Errorf("left %q, logged %s", s.holder("shop-process"), logged())
	}
}

// Fault H10: a process beside an elected leader warns and leaves the leader's Lease alone.
// A process that may not use Leases stops trying.
func TestProcessBesideLeader(t *testing.T) {
	s := newLeaseAPI()
	_, logged, _ := startProcess(t, s, "one")
	must.Eventually(t, "the warning", func() bool {
		s.setHolder("shop", "leader", time.Second)
		return strings.Contains(logged(), "process=leader")
	})
	if s.holder("shop") != "leader" {
		t.Error("the leader lost its Lease")
	}

	p, logged, stop := startProcess(t, &leaseAPI{status: http.StatusForbidden}, "one")
	must.Eventually(t, "the refusal", func() bool { return !p.Usable() })
	stop()
	if logged() != "" {
		t.Error(logged())
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
