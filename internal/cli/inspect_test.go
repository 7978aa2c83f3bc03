package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// fakeProcess reports which controllers it runs, and ends on request.
type fakeProcess struct {
	inspect.Source
	name string
	// info is what it says of itself.
	info inspect.Process
	// hangs means that it accepts requests and never responds.
	hangs bool
	ended chan struct{}
}

func newFakeProcess(name string) *fakeProcess {
	return &fakeProcess{name: name, ended: make(chan struct{})}
}

func (p *fakeProcess) Name() string { return p.name }

func (p *fakeProcess) Process(context.Context) (inspect.Process, error) { return p.info, nil }

func (p *fakeProcess) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	if p.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-p.ended:
		return nil, errors.New("connection refused")
	default:
		return []inspect.Controller{{Name: p.name}}, nil
	}
}

func (p *fakeProcess) Await(ctx context.Context, since uint64) (uint64, error) {
	if since == 0 {
		return 1, nil
	}
	select {
	case <-p.ended:
		return 0, errors.New("connection reset")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// processList are the processes of a folder.
type processList struct {
	mu  sync.Mutex
	all []inspect.Source
}

func (t *processList) find(context.Context) []inspect.Source {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]inspect.Source(nil), t.all...)
}

func (t *processList) set(all ...inspect.Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
}

func newTestSession(t *testing.T, of *processList) (*session, *strings.Builder) {
	t.Helper()
	var stderr strings.Builder
	r := &session{
		program: &program{stderr: &stderr}, readFlags: &readFlags{watch: true},
		localProcesses: of.find, timeouts: inspect.NewTimeouts(time.Minute),
	}
	if err := r.discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, &stderr
}

// names are the controllers that a reading sees.
func names(ctx context.Context, r *session) (string, error) {
	all, err := r.controllers(ctx)
	var found []string
	for _, c := range all {
		found = append(found, c.Name)
	}
	return strings.Join(found, " "), err
}

func TestStoppedProcessIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := newFakeProcess("asleep")
		asleep.hangs = true
		r, stderr := newTestSession(t, &processList{all: []inspect.Source{asleep, newFakeProcess("well")}})
		for range 2 {
			got, err := names(t.Context(), r)
			if err != nil || got != "well" {
				t.Errorf("%q, %v", got, err)
			}
		}
		if got := stderr.String(); got != "warning: the process asleep did not respond in time\n" {
			t.Errorf("said %q, want who is silent, once", got)
		}
		r.sources = r.sources[:1]
		if _, err := names(t.Context(), r); err == nil || !strings.Contains(err.Error(), "asleep did not respond") {
			t.Errorf("no listener: %v", err)
		}
	})
}

// A watch goes on when processes end and others begin, also if for a while there are none.
func TestWatchOutlivesProcesses(t *testing.T) {
	first, second := newFakeProcess("first"), newFakeProcess("second")
	all := &processList{all: []inspect.Source{first, newFakeProcess("other")}}
	r, stderr := newTestSession(t, all)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var step atomic.Int32
	err := r.follow(ctx, func(ctx context.Context) error {
		got, err := names(ctx, r)
		switch {
		case got == "first other" && step.CompareAndSwap(0, 1):
			close(first.ended)
		case got == "other" && step.CompareAndSwap(1, 2):
			all.set(second)
		case got == "second" && step.CompareAndSwap(2, 3):
			stop()
		}
		return err
	})
	if err != nil || step.Load() != 3 {
		t.Errorf("%v after step %d; said:\n%s", err, step.Load(), stderr)
	}
	if got := stderr.String(); strings.Count(got, "connection refused") != 1 {
		t.Errorf("said %q, want once who is silent", got)
	}
}

// What fails while it is watched is tried again; what fails at first is an error.
func TestWatchOutlivesFailures(t *testing.T) {
	r, stderr := newTestSession(t, &processList{all: []inspect.Source{newFakeProcess("a")}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	looks := 0
	err := r.follow(ctx, func(context.Context) error {
		looks++
		if looks == 2 {
			return errors.New("the API server is away")
		}
		if looks == 3 {
			stop()
		}
		return nil
	})
	if err != nil || looks != 3 || stderr.String() != "warning: the API server is away\n" {
		t.Errorf("%v after %d looks; said %q", err, looks, stderr)
	}
	if err := r.follow(t.Context(), func(context.Context) error { return errors.New("no") }); err == nil {
		t.Error("what fails at first is shown as success")
	}
}

// Fault G6: a controller with a leader and a standby is listed once, as the leader reports
// it. If no leader responds, the standby reports it.
func TestStandbyControllersAreListedOnce(t *testing.T) {
	leader, standby := newFakeProcess("setpoint"), newFakeProcess("setpoint-7")
	leader.info, standby.info = inspect.Process{LeaderElection: true, IsLeader: true}, inspect.Process{LeaderElection: true}
	all := []inspect.Controller{{Name: "cc/teams"}}
	for _, c := range []struct {
		sources []inspect.Source
		want    string
	}{
		{[]inspect.Source{&controllerSource{standby, all}, &controllerSource{leader, all}}, "cc/teams of setpoint"},
		{[]inspect.Source{&controllerSource{standby, all}}, "cc/teams of setpoint-7"},
	} {
		r := &session{program: &program{stderr: io.Discard}, sources: c.sources, timeouts: inspect.NewTimeouts(time.Minute), permissions: &permissions{accessReviewer: allowedVerbs{"list teams in "}}}
		found, err := r.runningControllers(t.Context())
		if err != nil || len(found) != 1 || found[0].Name+" of "+found[0].source.Name() != c.want {
			t.Errorf("found %+v, %v, want %s", found, err, c.want)
		}
	}
}

// Fault G2: a controller that is refused says why. Fault U12: an error that was overcome is
// no last error.
func TestLastErrorOnlyWhileFailing(t *testing.T) {
	r := &session{readFlags: &readFlags{outputFlags: newOutputFlags(asTable, asWide)}}
	ready := inspect.Condition{Type: "Ready", Status: "True"}
	last := &inspect.Failure{Message: "no answer", Time: noon}
	for _, c := range []struct {
		of   inspect.Controller
		want string
	}{
		{inspect.Controller{Conditions: []inspect.Condition{{Type: "Accepted", Status: "False", Message: "spec.childResources[0]: no such kind"}, {Type: "Ready", Status: "False", Reason: "NotAccepted"}}}, "spec.childResources[0]: no such kind"},
		{inspect.Controller{Conditions: []inspect.Condition{ready}, Failing: 1, Last: last}, "5s ago, no answer"},
		{inspect.Controller{Conditions: []inspect.Condition{{Type: "Ready", Status: "False"}}, Last: last}, "5s ago, no answer"},
		{inspect.Controller{Conditions: []inspect.Condition{ready}, Last: last}, ""},
	} {
		if cells := r.controllerRow(c.of, false, false, noon.Add(5*time.Second)).cells; cells[len(cells)-1] != c.want {
			t.Errorf("%+v: %q, want %q", c.of, cells, c.want)
		}
	}
}
