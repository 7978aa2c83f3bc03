package processes

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

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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

func newTestSession(t *testing.T, of *processList) (*Session, *strings.Builder) {
	t.Helper()
	var stderr strings.Builder
	r := &Session{
		Invocation: &command.Invocation{Stderr: &stderr}, ReadFlags: &ReadFlags{Watch: true},
		localProcesses: of.find, Timeouts: inspect.NewTimeouts(time.Minute),
	}
	must.Succeed(t, r.Discover(t.Context()))
	return r, &stderr
}

// names are the controllers that a reading sees.
func names(ctx context.Context, r *Session) (string, error) {
	all, err := r.Controllers(ctx)
	found := lists.Map(all, func(c inspect.Controller) string { return c.Name })
	return strings.Join(found, " "), err
}

func TestStoppedProcessIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := clitest.NewFakeProcess("asleep")
		asleep.Hangs = true
		r, stderr := newTestSession(t, &processList{all: []inspect.Source{asleep, clitest.NewFakeProcess("well")}})
		for range 2 {
			got, err := names(t.Context(), r)
			if err != nil || got != "well" {
				t.Errorf("%q, %v", got, err)
			}
		}
		if got := stderr.String(); got != "warning: the process asleep did not respond in time\n" {
			t.Errorf("said %q, want who is silent, once", got)
		}
		r.Sources = r.Sources[:1]
		if _, err := names(t.Context(), r); err == nil || !strings.Contains(err.Error(), "asleep did not respond") {
			t.Errorf("no listener: %v", err)
		}
	})
}

// A watch goes on when processes end and others begin, also if for a while there are none.
func TestWatchOutlivesProcesses(t *testing.T) {
	first, second := clitest.NewFakeProcess("first"), clitest.NewFakeProcess("second")
	all := &processList{all: []inspect.Source{first, clitest.NewFakeProcess("other")}}
	r, stderr := newTestSession(t, all)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var step atomic.Int32
	err := r.Follow(ctx, func(ctx context.Context) error {
		got, err := names(ctx, r)
		switch {
		case got == "first other" && step.CompareAndSwap(0, 1):
			close(first.Ended)
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
	r, stderr := newTestSession(t, &processList{all: []inspect.Source{clitest.NewFakeProcess("a")}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	looks := 0
	err := r.Follow(ctx, func(context.Context) error {
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
	if err := r.Follow(t.Context(), func(context.Context) error { return errors.New("no") }); err == nil {
		t.Error("what fails at first is shown as success")
	}
}

// Fault G6: a controller with a leader and a standby is listed once, as the leader reports
// it. If no leader responds, the standby reports it.
func TestStandbyControllersAreListedOnce(t *testing.T) {
	leader, standby := clitest.NewFakeProcess("setpoint"), clitest.NewFakeProcess("setpoint-7")
	leader.Info, standby.Info = inspect.Process{LeaderElection: true, IsLeader: true}, inspect.Process{LeaderElection: true}
	all := []inspect.Controller{{Name: "cc/teams"}}
	for _, c := range []struct {
		sources []inspect.Source
		want    string
	}{
		{[]inspect.Source{clitest.WithControllers(standby, all), clitest.WithControllers(leader, all)}, "cc/teams of setpoint"},
		{[]inspect.Source{clitest.WithControllers(standby, all)}, "cc/teams of setpoint-7"},
	} {
		r := &Session{Invocation: &command.Invocation{Stderr: io.Discard}, Sources: c.sources, Timeouts: inspect.NewTimeouts(time.Minute), Client: &client.Client{AccessReviewer: clitest.AllowedVerbs{"list teams in "}}}
		found, err := r.RunningControllers(t.Context())
		if err != nil || len(found) != 1 || found[0].Name+" of "+found[0].Source.Name() != c.want {
			t.Errorf("found %+v, %v, want %s", found, err, c.want)
		}
	}
}

// A controller of which the user may not know is not found by its name either.
func TestHiddenControllersAreNotFound(t *testing.T) {
	source := clitest.WithControllers(clitest.NewFakeProcess("a"), []inspect.Controller{
		{Name: "example/teams", Kinds: []object.Kind{clitest.Team().Kind}}, {Name: "example/secrets", Kinds: []object.Kind{clitest.Pod("").Kind}},
	})
	for _, test := range []struct {
		of           clitest.AllowedVerbs
		word, object string
		found        bool
		says         string
	}{
		{clitest.AllowedVerbs{"list teams in "}, "teams", "", true, ""},
		{clitest.AllowedVerbs{"list teams in shop"}, "teams", "", true, ""},
		{clitest.AllowedVerbs{"get teams in shop"}, "teams", "red", true, ""},
		{clitest.AllowedVerbs{"get teams in shop"}, "teams", "", false, "that you can get: there are none, and 2 that you cannot get"},
		{clitest.AllowedVerbs{"list teams in other"}, "teams", "red", false, "that you can get: there are none, and 2 that you cannot get"},
		{clitest.AllowedVerbs{"list teams in "}, "nonsense", "", false, "that you can get: there are example/teams, and 1 that you cannot get"},
		{clitest.AllowedVerbs{"list teams in ", "list pods in "}, "nonsense", "", false, `"nonsense": there are example/teams, example/secrets`},
	} {
		r := &Session{Invocation: &command.Invocation{Stderr: io.Discard}, Sources: []inspect.Source{source}, Timeouts: inspect.NewTimeouts(time.Minute), Client: &client.Client{AccessReviewer: test.of}}
		r.Target.Namespace = "shop"
		c, _, err := r.Controller(t.Context(), test.word, test.object)
		said := ""
		if hint := command.HintOf(err); hint != "" {
			said = err.Error() + ": " + hint
		}
		if (err == nil && c.Name == "example/teams") != test.found || !strings.Contains(said, test.says) || strings.Contains(said, "secrets") != (len(test.of) > 1) {
			t.Errorf("with %v, %q is %q: %s", test.of, test.word, c.Name, said)
		}
	}
}

func TestControllerLookup(t *testing.T) {
	composite := inspect.Controller{Name: "compositecontroller.setpoint.dev/teams"}
	program := inspect.Controller{Name: "shop/team"}
	for _, test := range []struct {
		word string
		of   inspect.Controller
		want bool
	}{
		{"compositecontroller.setpoint.dev/teams", composite, true},
		{"teams", composite, true},
		{"decoratorcontroller/teams", composite, false},
		{"compositecontroller/other", composite, false},
		{"team", composite, false},
		{"shop/team", program, true},
		{"team", program, true},
		{"cc/team", program, false},
	} {
		if got := matchesController(test.word, test.of); got != test.want {
			t.Errorf("%q means %s: %v", test.word, test.of.Name, got)
		}
	}
}
