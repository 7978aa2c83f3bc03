package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// What the lease of the documentation promises: a takeover within 5 seconds of a
// clean stop and within 15 of a crash. A candidate looks again after a retry
// period that is stretched by up to 1.2 of itself.
func TestTakeoverTime(t *testing.T) {
	e := LeaderElection{Enabled: true}.withDefaults(Options{Namespace: "here"})
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	look := 22 * e.RetryPeriod / 10
	if clean := look + releaseTimeout; clean > 5*time.Second {
		t.Errorf("after a clean stop it may take %s", clean)
	}
	// It sees the last renewal one look late, and the end of the lease too.
	if crash := look + e.LeaseDuration + look; crash > 15*time.Second {
		t.Errorf("after a crash it may take %s", crash)
	}
	if e.grace() < time.Second {
		t.Errorf("a leader has %s to stop", e.grace())
	}
	if e.Name != "setpoint" || e.Namespace != "here" || e.Identity == (LeaderElection{}).withDefaults(Options{}).Identity {
		t.Errorf("%+v", e)
	}
}

// Two that run different controllers must not stand by for each other.
func TestLeaseNamePerSelector(t *testing.T) {
	name := func(selector string) string { return LeaderElection{}.withDefaults(Options{Selector: selector}).Name }
	if name("team=web") == name("team=shop") || name("team=web") == name("") {
		t.Errorf("%q has the lease %s", "team=web", name("team=web"))
	}
	if name("a=b,c=d") != name("c = d, a=b") {
		t.Error("two ways to write a selector have two leases")
	}
}

func TestLeaseDurationsAreValidated(t *testing.T) {
	for want, e := range map[string]LeaderElection{
		"must be whole seconds":              {LeaseDuration: 1500 * time.Millisecond},
		"longer than the renew deadline and": {LeaseDuration: 8 * time.Second},
		"longer than 1.2 retry periods":      {RetryPeriod: 2 * time.Second, RenewDeadline: 2 * time.Second},
	} {
		e.Enabled = true
		if err := e.withDefaults(Options{}).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", e, err, want)
		}
		e.Enabled = false
		if err := e.withDefaults(Options{}).check(); err != nil {
			t.Errorf("nobody is elected, and yet: %v", err)
		}
	}
}

// What acts does so in every term and not between them, and the end of a term
// waits for it.
func TestLeadership(t *testing.T) {
	l := newLeadership()
	begun, mayEnd := make(chan context.Context), make(chan bool)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		l.whileLeading(ctx, func(ctx context.Context) {
			begun <- ctx
			<-ctx.Done()
			<-mayEnd
		})
	})
	for range 3 {
		if l.leads() {
			t.Fatal("leads before the term")
		}
		l.start()
		during := <-begun
		if !l.leads() || during.Err() != nil {
			t.Fatal("does not lead in the term")
		}
		quiet := l.stop()
		<-during.Done()
		select {
		case <-quiet:
			t.Fatal("quiet while somebody acts")
		default:
		}
		mayEnd <- true
		<-quiet
	}
	stop()
	all.Wait()
	l.start()
	<-l.stop()
}

// What is done early is done once in a term.
func TestLeadershipRunsOncePerLease(t *testing.T) {
	l := newLeadership()
	done := make(chan bool, 9)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { l.whileLeading(ctx, func(context.Context) { done <- true }) })
	l.start()
	<-done
	<-l.stop()
	l.start()
	<-done
	stop()
	all.Wait()
	if len(done) != 0 {
		t.Errorf("done %d times more", len(done))
	}
}

// A leader whose lease has another's name in it stops at once, not only when its
// renew deadline has passed; and it leads again when the other is gone.
func TestLeaderYieldsToHolderOfLease(t *testing.T) {
	server := &leaseServer{}
	h := candidate(t, server)
	acting := make(chan context.Context)
	h.startElection(t, sendWhileLeading(acting))

	first := <-acting
	server.setHolder("another", time.Hour)
	<-first.Done()
	if h.leadership.leads() {
		t.Error("leads still")
	}
	server.setHolder("", time.Second)
	second := <-acting
	if !h.leadership.leads() || second.Err() != nil {
		t.Error("does not lead again")
	}
}

// A leader that cannot renew its lease stops, stays, and goes on when it can.
func TestLeaderSurvivesAPIServerOutage(t *testing.T) {
	server := &leaseServer{}
	h := candidate(t, server)
	acting := make(chan context.Context)
	h.startElection(t, sendWhileLeading(acting))

	first := <-acting
	server.setStatus(http.StatusServiceUnavailable)
	<-first.Done()
	server.setStatus(http.StatusOK)
	<-acting
}

// The lease is handed on at the end, after all that acts has ended.
func TestCleanStopReleasesLease(t *testing.T) {
	server := &leaseServer{}
	h := candidate(t, server)
	acting, ended := make(chan bool, 1), make(chan string, 1)
	stop := h.startElection(t, func(ctx context.Context) {
		acting <- true
		<-ctx.Done()
		ended <- server.holder()
	})
	<-acting
	stop()
	if holder := <-ended; holder != "me" {
		t.Errorf("%q has the lease while we act", holder)
	}
	if holder := server.holder(); holder != "" {
		t.Errorf("%q has the lease after the end", holder)
	}
}

// A refusal is not only logged: nobody would lead, and everything look well.
func TestForbiddenLeaseMakesUnready(t *testing.T) {
	server := &leaseServer{}
	server.setStatus(http.StatusForbidden)
	h := candidate(t, server)
	h.startElection(t, func(context.Context) {})
	for h.leaseLock.problem() == nil {
		<-time.After(10 * time.Millisecond)
	}
	if err := h.checkReady(); err == nil || !strings.Contains(err.Error(), "elect a leader by the lease setpoint/setpoint: ") {
		t.Error(err)
	}
	server.setStatus(http.StatusOK)
	for !h.leadership.leads() {
		<-time.After(10 * time.Millisecond)
	}
	if err := h.leaseLock.problem(); err != nil {
		t.Error(err)
	}
}

// Fault S8: every replica was ready while none could acquire the lease.
func TestExpiredLeaseMakesUnready(t *testing.T) {
	server := &leaseServer{}
	server.setStatus(http.StatusInternalServerError) // As when a webhook is in its way.
	h := candidate(t, server)
	h.startElection(t, func(context.Context) {})
	for h.leaseLock.problem() == nil {
		<-time.After(10 * time.Millisecond)
	}
	if err := h.checkReady(); err == nil || !strings.HasPrefix(err.Error(), "no replica has renewed the lease setpoint/setpoint for 4s: ") {
		t.Error(err)
	}
	server.setStatus(http.StatusOK)
	for !h.leadership.leads() {
		<-time.After(10 * time.Millisecond)
	}
	if err := h.leaseLock.problem(); err != nil {
		t.Error(err)
	}
}

// A replica that stands by is ready for as long as another one renews the lease, and
// while the API server does not answer: then nothing is known, and none is different.
func TestLeaseProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseLock{renewTimeout: 20 * time.Second, problems: map[string]error{}}
		l.startCandidacy(func() {})
		held := &resourcelock.LeaderElectionRecord{HolderIdentity: "another"}
		for i, step := range []struct {
			record  *resourcelock.LeaderElectionRecord
			raw     string
			err     error
			trouble bool
		}{
			{held, "1", nil, false},
			{held, "2", nil, false},
			{held, "2", nil, true},
			{held, "3", nil, false},
			{nil, "", errors.New("connection refused"), false},
			{nil, "", apierrors.NewTooManyRequests("later", 1), false},
			{nil, "", apierrors.NewInternalError(errors.New("failed calling webhook")), true},
			{&resourcelock.LeaderElectionRecord{}, "4", nil, true},
			{held, "5", nil, false},
		} {
			<-time.After(15 * time.Second)
			l.observeRecord(step.record, []byte(step.raw), step.err)
			<-time.After(15 * time.Second)
			l.observeRecord(step.record, []byte(step.raw), step.err)
			if err := l.problem(); (err != nil) != step.trouble {
				t.Errorf("step %d: %v", i, err)
			}
		}
	})
}

// sendWhileLeading tells of each term, for as long as it lasts.
func sendWhileLeading(acting chan<- context.Context) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case acting <- ctx:
			<-ctx.Done()
		case <-ctx.Done():
		}
	}
}

// A leader that cannot be sure that nothing of it acts any more ends.
func TestLeaderThatCannotStopExits(t *testing.T) {
	server := &leaseServer{}
	h := candidate(t, server)
	acting, mayEnd := make(chan bool), make(chan bool)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { h.leadership.whileLeading(ctx, func(context.Context) { acting <- true; <-mayEnd }) })
	ended := make(chan error, 1)
	go func() { ended <- h.runElection(ctx) }()
	<-acting
	server.setHolder("another", time.Hour)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "what was under way does not end") {
		t.Error(err)
	}
	close(mayEnd)
	stop()
	all.Wait()
}

// Metacontroller's lease may be ours, where its flags were taken over: we are not
// to stand aside for ourselves. The one in another namespace is somebody else's.
func TestOwnLeaseIsNoMetacontroller(t *testing.T) {
	fresh := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"items":[{"metadata":{"namespace":"ours","name":"metacontroller"},"spec":{"holderIdentity":"a","renewTime":%[1]q}},
			{"metadata":{"namespace":"theirs","name":"metacontroller"},"spec":{"holderIdentity":"b","renewTime":%[1]q}}]}`, fresh)
	}))
	t.Cleanup(server.Close)
	m, err := New(Options{Config: &rest.Config{Host: server.URL}, LeaderElection: LeaderElection{Enabled: true, Name: "metacontroller", Namespace: "ours"}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := m.leaseHolders(t.Context())
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].name, "b, ") {
		t.Errorf("%+v, %v", found, err)
	}
}

// electionManager is a Host of which only the election is used.
type electionManager struct{ *Manager }

func candidate(t *testing.T, server http.Handler) electionManager {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	m, err := New(Options{
		Config: &rest.Config{Host: s.URL}, SkipCRDs: true, Log: slog.New(slog.DiscardHandler), Namespace: "setpoint",
		LeaderElection: LeaderElection{
			Enabled: true, Identity: "me", LeaseDuration: 2 * time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 20 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return electionManager{m}
}

// startElection has it campaign, and do act in every term. What it returns ends that, as
// the end of the test does.
func (s electionManager) startElection(t *testing.T, do func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { s.leadership.whileLeading(ctx, do) })
	all.Go(func() {
		if err := s.runElection(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return stop
}

// leaseServer is an API server of one Lease.
type leaseServer struct {
	mu     sync.Mutex
	lease  *coordination.Lease
	status int
}

func (s *leaseServer) setStatus(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// setHolder writes a name into the lease, as another candidate would.
func (s *leaseServer) setHolder(name string, duration time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seconds := int32(duration.Seconds())
	s.lease.Spec.HolderIdentity, s.lease.Spec.LeaseDurationSeconds = &name, &seconds
	s.lease.ResourceVersion += "1"
}

func (s *leaseServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.lease.Spec.HolderIdentity
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sent coordination.Lease
	switch {
	case s.status > http.StatusOK:
		http.Error(w, "no", s.status)
		return
	case r.Method == http.MethodGet && s.lease == nil:
		http.NotFound(w, r)
		return
	case r.Method == http.MethodGet:
	case json.NewDecoder(r.Body).Decode(&sent) != nil:
		http.Error(w, "no lease", http.StatusBadRequest)
		return
	case s.lease != nil && sent.ResourceVersion != s.lease.ResourceVersion:
		http.Error(w, "conflict", http.StatusConflict)
		return
	default:
		sent.ResourceVersion += "1"
		s.lease = &sent
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.lease) // Nobody may be listening any more.
}
