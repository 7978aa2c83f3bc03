package composite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func selectorFor(t *testing.T, text string) labels.Selector {
	t.Helper()
	return must.Get(labels.Parse(text)).In(t)
}

func TestPhaseOf(t *testing.T) {
	called := hook.Func(nil)
	const (
		web     = `,"labels":{"app":"web"}`
		held    = `,"finalizers":["other","ours"]`
		going   = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
		paused  = `,"annotations":{"setpoint.dev/paused":"true"}`
		unpause = `,"annotations":{"setpoint.dev/paused":"false"}`
	)
	for _, c := range []struct {
		name, metadata     string
		with, without, all controller.Phase
	}{
		{"matches", web, controller.PhaseManaged, controller.PhaseManaged, controller.PhaseManaged},
		{"matches not", ``, controller.PhaseIgnored, controller.PhaseIgnored, controller.PhaseManaged},
		{"matches, held", web + held, controller.PhaseManaged, controller.PhaseReleasing, controller.PhaseManaged},
		{"matches not, held", held, controller.PhaseFinalizing, controller.PhaseReleasing, controller.PhaseManaged},
		{"going", web + going, controller.PhaseIgnored, controller.PhaseManaged, controller.PhaseIgnored},
		{"going, held", web + going + held, controller.PhaseFinalizing, controller.PhaseReleasing, controller.PhaseFinalizing},
		{"going, held, matches not", going + held, controller.PhaseFinalizing, controller.PhaseReleasing, controller.PhaseFinalizing},
		{"going, matches not", going, controller.PhaseIgnored, controller.PhaseIgnored, controller.PhaseIgnored},
		{"paused", web + paused, controller.PhasePaused, controller.PhasePaused, controller.PhasePaused},
		{"paused, held, going", going + held + paused, controller.PhasePaused, controller.PhasePaused, controller.PhasePaused},
		{"not paused", web + unpause, controller.PhaseManaged, controller.PhaseManaged, controller.PhaseManaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			selections := []Selection{{Labels: selectorFor(t, "app=db")}, {Labels: selectorFor(t, "app=web")}}
			parent := parentOf(t, c.metadata)
			for _, p := range []struct {
				what    string
				program Program
				want    controller.Phase
			}{
				{"with a finalize hook", Program{Finalizer: "ours", Finalize: called, Selections: selections}, c.with},
				{"without", Program{Finalizer: "ours", Selections: selections}, c.without},
				{"for all parents", Program{Finalizer: "ours", Finalize: called}, c.all},
			} {
				if got := p.program.phaseOf(parent, p.program.Finalize != nil); got != p.want {
					t.Errorf("%s: got %d, want %d", p.what, got, p.want)
				}
			}
		})
	}
}

func TestSelectionByAnnotations(t *testing.T) {
	s := Selection{Labels: selectorFor(t, "app"), Annotations: selectorFor(t, "tier in (a,b)")}
	for metadata, want := range map[string]bool{
		`,"labels":{"app":"x"},"annotations":{"tier":"a"}`: true,
		`,"labels":{"app":"x"},"annotations":{"tier":"c"}`: false,
		`,"labels":{"app":"x"}`:                            false,
		`,"annotations":{"tier":"a"}`:                      false,
	} {
		if s.Matches(parentOf(t, metadata)) != want {
			t.Errorf("%s: want %v", metadata, want)
		}
	}
	if text := s.String(); !strings.Contains(text, "labels app, annotations tier in (a,b)") {
		t.Error(text)
	}
}

func parentOf(t *testing.T, metadata string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u"` + metadata + `}}`))).In(t)
}

func TestRecoveryProbe(t *testing.T) {
	var s recoveryProbe
	one, other, now := queue.Key{Name: "one"}, queue.Key{Name: "other"}, time.Unix(1e9, 0)
	refused := &hook.UnreachableError{Err: errors.New("connection refused")}
	crashed := &hook.UnreachableError{Err: errors.New("connection closed without a response"), Connected: true}
	expect := func(what string, key queue.Key, err error, want bool) {
		t.Helper()
		if s.tryAcquire(key, err, now) != want {
			t.Errorf("%s: is the probe: %v", what, !want)
		}
	}
	expect("another error", one, errors.New("returned 500"), false)
	expect("the first caller", one, refused, true)
	expect("the second", other, refused, false)
	expect("the first, again", one, crashed, true)
	s.drop(other)
	expect("another one has ended", other, refused, false)
	s.drop(one)
	expect("the probe has ended", other, refused, true)
	expect("it is replaced", one, refused, false)
	now = now.Add(maxProbing)
	expect("a process that crashes at each call", other, crashed, false)
	expect("no process", other, refused, true)
	s.reset()
	expect("after a response", one, crashed, true)
}

var (
	stalls = object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true}
	signs  = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
)

// runRecorder collects the records of runs.
type runRecorder struct {
	mu              sync.Mutex
	runs, deletions []record.Run
}

func (l *runRecorder) Ran(run record.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, run)
}

func (l *runRecorder) Deleted(deletion record.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deletions = append(l.deletions, deletion)
}

func (l *runRecorder) Handled(string, string, hook.Reason, time.Duration, error) {}

func (l *runRecorder) summaries() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, run := range l.runs {
		if run.IsNoop() {
			continue
		}
		words := []string{run.Outcome}
		for _, s := range run.Steps {
			switch {
			case s.Call != nil && s.Call.Err != nil:
				words = append(words, s.Call.Name+"!")
			case s.Call != nil:
				words = append(words, s.Call.Name+"?")
			case s.Plan != nil:
				words = append(words, fmt.Sprintf("plan %d equal", s.Plan.Unchanged))
				for _, action := range s.Plan.Stages {
					words[len(words)-1] += fmt.Sprint(" ", action[0].Verb, " ", action[0].Ref)
				}
			case s.Write != nil && s.Write.Err != nil:
				words = append(words, "refused "+s.Write.Verb+" "+s.Write.Part)
			case s.Write != nil:
				words = append(words, strings.TrimSpace(fmt.Sprint(s.Write.Verb, " ", s.Write.Object, " ", s.Write.Part)))
			case s.Event != nil:
				words = append(words, s.Event.Reason)
			}
		}
		all = append(all, strings.Join(words, ", "))
	}
	return all
}

// A hook fails, then creates a child and sets a status. The first write of that status is a
// conflict.
func TestRunsAreRecorded(t *testing.T) {
	calls, conflicts, at := 0, 0, newCluster(t, newShop)
	at.refuse = func(_, path string) int {
		conflicts++
		if path == "shops/a/status" && conflicts == 2 { // After the create.
			return http.StatusConflict
		}
		return 0
	}
	c := shopsOf(t, at, Program{
		Parent: stalls, Workers: 1,
		Sync: hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
			calls++
			if calls == 1 {
				return nil, errors.New("no money")
			}
			return openShop(calls, nil), nil
		}),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	const want = "failed, sync!, HookFailed\n" +
		"postponed, sync?, plan 0 equal create ConfigMap town/sign, create ConfigMap town/sign, sync?, plan 1 equal, refused update status\n" +
		"synced, sync?, plan 1 equal, update Shop town/a status"
	for deadline := time.Now().Add(time.Minute); strings.Join(c.summaries(), "\n") != want && time.Now().Before(deadline); {
		<-time.After(5 * time.Millisecond)
	}
	state, is := c.ObjectState(controller.KeyOf(c.Objects()[0]))
	stop()
	<-ended
	if got := strings.Join(c.summaries(), "\n"); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	first, second := &c.runs[0], &c.runs[1]
	if first.Err == nil || !strings.Contains(first.Err.Error(), "no money") || !first.Next.After(first.Began) || first.Attempt != 0 || second.Attempt != 1 {
		t.Errorf("the first: %v, next %v, then attempt %d", first.Err, first.Next, second.Attempt)
	}
	if first.Object.Kind != object.KindOf(stalls) || first.Object.Name != "a" || first.Object.UID != "u-a" || first.Queued.String() != "initial list" || second.Queued.String() != "retry 1" {
		t.Errorf("about %+v, because of %s, then %s", first.Object, first.Queued, second.Queued)
	}
	if of, call := record.FaultOf(first.Err), record.FaultOf(first.Steps[0].Call.Err); of == nil || of.Kind != failure.HookFailed || call == nil || *call != *of {
		t.Errorf("the first failed with %+v, call %+v", of, call)
	}
	if call := second.Steps[0].Call; len(call.Sent.Sync.Parent) == 0 || len(call.Received.Sync.Children) != 1 {
		t.Errorf("call %+v", call)
	}
	if !is || state.Failing || state.Children != 1 || state.LastRun.IsZero() || len(c.Children(state.Object)) != 1 {
		t.Errorf("managed: %+v", state)
	}
}

// Fault H4: runtime.Goexit in a Compose function ended a worker. Like a panic (fault G1), it is an
// error of the function.
func TestPanicsAreHookFailures(t *testing.T) {
	for name, do := range map[string]func(){"a panic": func() { panic("ouch") }, "an exit": runtime.Goexit} {
		sync := hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) { do(); return &hook.Response{}, nil })
		err := shopsOf(t, newCluster(t, newShop), Program{Sync: sync}).run(queue.ParentChanged).Err
		if err == nil || !failure.IsPanic(err) || failure.SourceOf(err) != failure.Hook {
			t.Errorf("%s: %v", name, err)
		}
	}
}
