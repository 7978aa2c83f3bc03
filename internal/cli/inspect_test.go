package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// process plays one: it says which controllers it runs, and ends when it is told to.
type process struct {
	inspect.Source
	name string
	// about is what it says of itself.
	about inspect.Process
	// asleep says that it takes questions, and answers none.
	asleep bool
	ended  chan struct{}
}

func newProcess(name string) *process { return &process{name: name, ended: make(chan struct{})} }

func (p *process) Name() string { return p.name }

func (p *process) Process(context.Context) (inspect.Process, error) { return p.about, nil }

func (p *process) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	if p.asleep {
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

func (p *process) Await(ctx context.Context, since uint64) (uint64, error) {
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

// town are the processes of a folder.
type town struct {
	mu  sync.Mutex
	all []inspect.Source
}

func (t *town) find(context.Context) []inspect.Source {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]inspect.Source(nil), t.all...)
}

func (t *town) become(all ...inspect.Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
}

func readingOf(t *testing.T, of *town) (*reading, *strings.Builder) {
	t.Helper()
	var stderr strings.Builder
	r := &reading{
		program: &program{stderr: &stderr}, readFlags: &readFlags{watch: true},
		folder: of.find, patience: inspect.NewPatience(20 * time.Millisecond),
	}
	if err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, &stderr
}

// names are the controllers that a reading sees.
func names(ctx context.Context, r *reading) (string, error) {
	all, err := r.controllers(ctx)
	var found []string
	for _, c := range all {
		found = append(found, c.Name)
	}
	return strings.Join(found, " "), err
}

func TestAStoppedProcessIsNamed(t *testing.T) {
	asleep := newProcess("asleep")
	asleep.asleep = true
	r, stderr := readingOf(t, &town{all: []inspect.Source{asleep, newProcess("well")}})
	for range 2 {
		got, err := names(t.Context(), r)
		if err != nil || got != "well" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got := stderr.String(); got != "warning: the process asleep does not answer in time\n" {
		t.Errorf("said %q, want who is silent, once", got)
	}
	r.sources = r.sources[:1]
	if _, err := names(t.Context(), r); err == nil || !strings.Contains(err.Error(), "asleep does not answer") {
		t.Errorf("where nobody answers: %v", err)
	}
}

// A watch goes on when processes end and others begin, also if for a while there are none.
func TestAWatchOutlivesProcesses(t *testing.T) {
	first, second := newProcess("first"), newProcess("second")
	all := &town{all: []inspect.Source{first, newProcess("other")}}
	r, stderr := readingOf(t, all)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var step atomic.Int32
	err := r.follow(ctx, func(ctx context.Context) error {
		got, err := names(ctx, r)
		switch {
		case got == "first other" && step.CompareAndSwap(0, 1):
			close(first.ended)
		case got == "other" && step.CompareAndSwap(1, 2):
			all.become(second)
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
func TestAWatchOutlivesFailures(t *testing.T) {
	r, stderr := readingOf(t, &town{all: []inspect.Source{newProcess("a")}})
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

// Fault G6: what one replica leads and another stands by for is one controller, that of
// the leader. Where no leader answers, the one that stands by tells what it knows.
func TestWhatIsStoodByForIsListedOnce(t *testing.T) {
	leader, standby := newProcess("setpoint"), newProcess("setpoint-7")
	leader.about, standby.about = inspect.Process{Elects: true, Leads: true}, inspect.Process{Elects: true}
	all := []inspect.Controller{{Name: "cc/teams"}}
	for _, c := range []struct {
		sources []inspect.Source
		want    string
	}{
		{[]inspect.Source{&crew{standby, all}, &crew{leader, all}}, "cc/teams of setpoint"},
		{[]inspect.Source{&crew{standby, all}}, "cc/teams of setpoint-7"},
	} {
		r := &reading{program: &program{stderr: io.Discard}, sources: c.sources, patience: inspect.NewPatience(time.Second), rights: &rights{asker: allowed{"list teams in "}}}
		found, err := r.hosted(t.Context())
		if err != nil || len(found) != 1 || found[0].Name+" of "+found[0].by.Name() != c.want {
			t.Errorf("found %+v, %v, want %s", found, err, c.want)
		}
	}
}

// Fault G2: a controller that is refused says why. Fault U12: an error that was overcome is
// no last error.
func TestLastErrorIsOfWhatFails(t *testing.T) {
	r := &reading{readFlags: &readFlags{output: oneOf(asTable, wide)}}
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
		if cells := r.controllerRow(c.of, noon.Add(5*time.Second)).cells; cells[len(cells)-1] != c.want {
			t.Errorf("%+v: %q, want %q", c.of, cells, c.want)
		}
	}
}
