package leader

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The documentation promises a failover within 5 seconds of a clean stop and within 15 of a
// crash. A candidate's retry period has a jitter of up to 1.2.
func TestTakeoverTime(t *testing.T) {
	e := Election{Enabled: true}.WithDefaults("here", "")
	must.Succeed(t, e.Check())
	look := 22 * e.RetryPeriod / 10
	if clean := look + releaseTimeout; clean > 5*time.Second {
		t.Errorf("after a clean stop it may take %s", clean)
	}
	// It observes both the last renewal and the expiry one check late.
	if crash := look + e.LeaseDuration + look; crash > 15*time.Second {
		t.Errorf("after a crash it may take %s", crash)
	}
	if e.Grace() < time.Second {
		t.Errorf("a leader has %s to stop", e.Grace())
	}
	if e.Name != "setpoint" || e.Namespace != "here" || e.Identity == (Election{}).WithDefaults("", "").Identity {
		t.Errorf("%+v", e)
	}
}

// Replicas with different selectors must not share a Lease.
func TestLeaseNamePerSelector(t *testing.T) {
	name := func(selector string) string { return Election{}.WithDefaults("", selector).Name }
	if name("team=web") == name("team=shop") || name("team=web") == name("") {
		t.Errorf("%q has the lease %s", "team=web", name("team=web"))
	}
	if name("a=b,c=d") != name("c = d, a=b") {
		t.Error("two ways to write a selector have two leases")
	}
}

func TestLeaseDurationsAreValidated(t *testing.T) {
	for want, e := range map[string]Election{
		"must be whole seconds":                 {LeaseDuration: 1500 * time.Millisecond},
		"longer than the renew deadline 7s and": {LeaseDuration: 8 * time.Second},
		"longer than 1.2 retry periods":         {RetryPeriod: 2 * time.Second, RenewDeadline: 2 * time.Second},
	} {
		e.Enabled = true
		if err := e.WithDefaults("", "").Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", e, err, want)
		}
		e.Enabled = false
		must.Succeed(t, e.WithDefaults("", "").Check()) // Disabled.
	}
}

// Work runs in each period of leadership and not between, and stop waits for it.
func TestLeadership(t *testing.T) {
	l := NewLeadership()
	begun, mayEnd := make(chan context.Context), make(chan bool)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		l.WhileLeading(ctx, func(ctx context.Context) {
			begun <- ctx
			<-ctx.Done()
			<-mayEnd
		})
	})
	for range 3 {
		if l.Leads() {
			t.Fatal("leads before start")
		}
		l.start()
		during := <-begun
		if !l.Leads() || during.Err() != nil {
			t.Fatal("does not lead after start")
		}
		idle := l.stop()
		<-during.Done()
		select {
		case <-idle:
			t.Fatal("stopped while work runs")
		default:
		}
		mayEnd <- true
		<-idle
	}
	stop()
	all.Wait()
	l.start()
	<-l.stop()
}

// Work that returns early runs once per period.
func TestLeadershipRunsOncePerLease(t *testing.T) {
	l := NewLeadership()
	done := make(chan bool, 9)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { l.WhileLeading(ctx, func(context.Context) { done <- true }) })
	l.start()
	<-done
	<-l.stop()
	l.start()
	<-done
	stop()
	all.Wait()
	if len(done) != 0 {
		t.Errorf("called %d more times", len(done))
	}
}

// A leader that finds another holder in the Lease stops at once, not at its renew deadline,
// and leads again when the holder is gone.
func TestLeaderYieldsToHolderOfLease(t *testing.T) {
	server := newLeaseAPI()
	h := candidate(t, server, patient)
	acting := make(chan context.Context)
	h.startElection(t, sendWhileLeading(acting))

	first := <-acting
	server.setHolder("setpoint", "another", time.Hour)
	<-first.Done()
	if h.Leads() {
		t.Error("still leads")
	}
	server.setHolder("setpoint", "", time.Second)
	second := <-acting
	if !h.Leads() || second.Err() != nil {
		t.Error("does not lead again")
	}
}

// A leader that cannot renew its Lease stops leading, keeps running, and leads again later.
func TestLeaderSurvivesAPIServerOutage(t *testing.T) {
	server := newLeaseAPI()
	h := candidate(t, server, Election{LeaseDuration: time.Minute, RenewDeadline: 500 * time.Millisecond})
	acting := make(chan context.Context)
	h.startElection(t, sendWhileLeading(acting))

	first := <-acting
	server.setStatus(http.StatusServiceUnavailable)
	<-first.Done()
	server.setStatus(0)
	<-acting
}

// The Lease is released after all work has stopped.
func TestCleanStopReleasesLease(t *testing.T) {
	server := newLeaseAPI()
	h := candidate(t, server, patient)
	acting, ended := make(chan bool, 1), make(chan string, 1)
	stop := h.startElection(t, func(ctx context.Context) {
		acting <- true
		<-ctx.Done()
		ended <- server.holder("setpoint")
	})
	<-acting
	stop()
	if holder := <-ended; holder != "me" {
		t.Errorf("%q has the lease while we act", holder)
	}
	if holder := server.holder("setpoint"); holder != "" {
		t.Errorf("%q has the lease after the end", holder)
	}
}

// Fault S8: every replica was ready while none could acquire the lease. One that may not use it is unready at once.
func TestExpiredLeaseMakesUnready(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusForbidden:           "acquire the leader lease setpoint/setpoint: ",
		http.StatusInternalServerError: "no replica has renewed the leader lease setpoint/setpoint for 4s: ", // As when a webhook is in its way.
	} {
		server := newLeaseAPI()
		server.setStatus(status)
		h := candidate(t, server, hasty)
		h.startElection(t, func(context.Context) {})
		must.Eventually(t, "unready", func() bool { return h.Problem() != nil })
		if err := h.Problem(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Error(err)
		}
		server.setStatus(0)
		must.Eventually(t, "it leads", h.Leads)
		must.Succeed(t, h.Problem())
	}
}

// A standby replica is ready while another one renews the Lease, and while the API server is
// unavailable: then the state of the Lease is unknown.
func TestLeaseProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lock{renewTimeout: 20 * time.Second, problems: map[string]error{}, renewedBy: func(string, string) {}}
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

// sendWhileLeading sends the context of each period of leadership.
func sendWhileLeading(acting chan<- context.Context) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case acting <- ctx:
			<-ctx.Done()
		case <-ctx.Done():
		}
	}
}

// A leader that cannot stop its work exits.
func TestLeaderThatCannotStopExits(t *testing.T) {
	server := newLeaseAPI()
	h := candidate(t, server, hasty)
	acting, mayEnd := make(chan bool), make(chan bool)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { h.WhileLeading(ctx, func(context.Context) { acting <- true; <-mayEnd }) })
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, noPreparation) }()
	<-acting
	server.setHolder("setpoint", "another", time.Hour)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "work did not stop in time") {
		t.Error(err)
	}
	close(mayEnd)
	stop()
	all.Wait()
}

// A patient candidate does not lose its Lease because the machine is slow for a moment. A hasty one may.
var (
	patient = Election{LeaseDuration: 2 * time.Minute, RenewDeadline: time.Minute}
	hasty   = Election{LeaseDuration: 2 * time.Second, RenewDeadline: 500 * time.Millisecond}
)

// candidate returns a candidate with the durations of an election.
func candidate(t *testing.T, server http.Handler, e Election) *Elector {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	e.Enabled, e.Name, e.Namespace, e.Identity, e.RetryPeriod = true, "setpoint", "setpoint", "me", 20*time.Millisecond
	return must.Get(New(e, &rest.Config{Host: s.URL}, slog.New(slog.DiscardHandler))).In(t)
}

// noPreparation prepares nothing.
func noPreparation(context.Context) error { return nil }

// startElection runs the election, and do while leading. The returned function stops both, as
// does the end of the test.
func (e *Elector) startElection(t *testing.T, do func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { e.WhileLeading(ctx, do) })
	all.Go(func() {
		if err := e.Run(ctx, noPreparation); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return stop
}
