package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// observed is what the observer of a controller has seen.
type observed struct {
	lock      sync.Mutex
	events    []string
	runs      []record.Run
	deletions []record.Run
}

// testEnv is a server with a running controller, and the calls of its handlers.
type testEnv struct {
	*server
	*Controller
	observed

	callLines []string
	stop      func()
}

const finalizer = "setpoint.dev/test"

// stateLocationVariable is an environment variable: with "status", programs store their
// records in the status.
const stateLocationVariable = "TEST_RECORDS_IN"

// program returns a program with the usual names.
func program(handlers ...trigger.Handler) Program {
	p := Program{
		Rules: trigger.Rules{
			Resource: rates, Handlers: handlers, Finalizer: finalizer,
			Record: lasthandled.Location{Annotation: "setpoint.dev/handled-by-test"},
		},
		Name: "test", Owns: []object.Resource{configMaps}, Manager: "setpoint-test",
	}
	if os.Getenv(stateLocationVariable) == "status" {
		p.Record.StatusKey = "test"
	}
	return p
}

func (s *observed) Ran(run record.Run) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.runs = append(s.runs, run)
}

func (s *observed) Deleted(deletion record.Run) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.deletions = append(s.deletions, deletion)
}

func (s *observed) Handled(string, string, hook.Reason, time.Duration, error) {}

func (s *observed) OwnEvent(o *object.Object, event hook.Event) { s.Event(o, event) }

func (s *observed) Event(o *object.Object, e hook.Event) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.events = append(s.events, o.Name()+" "+e.Reason+" "+e.Message)
}

func (s *observed) eventLines() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.events)
}

func (s *observed) expectEvents(t *testing.T, want ...string) {
	t.Helper()
	if got := s.eventLines(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func (s *testEnv) recordCall(line string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.callLines = append(s.callLines, line)
}

func (s *testEnv) calledLines() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.callLines)
}

// patience is a time limit that no test reaches.
const patience = time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	eventuallyOr(t, holds, func() string { return "never: " + what })
}

// waitIdle waits until the controller has seen all changes and has nothing to do, for a
// moment.
func (s *testEnv) waitIdle(t *testing.T) {
	t.Helper()
	still := 0
	eventuallyOr(t, func() bool {
		still++
		if !s.isIdle() {
			still = 0
		}
		return still > 25
	}, func() string {
		return fmt.Sprintf("never at rest: the watches are up to date: %v; the queue: %+v; events: %v", s.isUpToDate(), s.Health().Queue, s.eventLines())
	})
}

// isIdle reports whether the controller runs, has seen all changes, and will have nothing to do soon. Before the first
// list it has nothing to do either.
func (s *testEnv) isIdle() bool {
	const soon = 250 * time.Millisecond // More than ConflictDelay.
	if !s.Running() || !s.isUpToDate() {
		return false
	}
	for key := range s.Memories.UIDs() {
		if next := s.Queue.Pending(key).Next; !next.IsZero() && time.Until(next) < soon {
			return false
		}
	}
	stats := s.Health().Queue
	return stats.Queued()+stats.Active == 0
}

// isUpToDate reports whether the controller's watches have delivered all changes. Watches with
// selectors skip some.
func (s *testEnv) isUpToDate() bool {
	selects := s.program.Labels+s.program.Fields != ""
	for _, w := range s.Watches() {
		if !w.View.Synced() || !selects && w.View.Version() < s.latestVersion(w.Resource) {
			return false
		}
		w.View.ObserveDelete(unknownObject) // It waits until the event handlers have returned.
	}
	return true
}

// unknownObject is in no cache.
var unknownObject, _ = object.Parse([]byte(`{"apiVersion":"v1","kind":"Unknown","metadata":{"name":"unknown","uid":"unknown"}}`))

func (s *testEnv) expectCalls(t *testing.T, want ...string) {
	t.Helper()
	eventuallyOr(t, func() bool { return slices.Equal(s.calledLines(), want) }, func() string {
		return fmt.Sprintf("called\n%s\nwant\n%s", strings.Join(s.calledLines(), "\n"), strings.Join(want, "\n"))
	})
	s.waitIdle(t)
	if got := s.calledLines(); !slices.Equal(got, want) {
		t.Errorf("then called\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (s *testEnv) expectCallsInAnyOrder(t *testing.T, want ...string) {
	t.Helper()
	eventuallyOr(t, func() bool { return len(s.calledLines()) == len(want) }, func() string { return text(s.calledLines()) })
	s.waitIdle(t)
	if got := slices.Sorted(slices.Values(s.calledLines())); !slices.Equal(got, want) {
		t.Errorf("called %q, want %q", got, want)
	}
}

func eventuallyOr(t *testing.T, holds func() bool, or func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal(or())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// fakeHandler is shared by a program's handlers, which exist before the testEnv.
type fakeHandler struct {
	env       *testEnv
	lock      sync.Mutex
	responses map[string]func(n *hook.HandlerRequest) (*hook.HandlerResponse, error)
}

func newFakeHandler() *fakeHandler {
	return &fakeHandler{responses: map[string]func(*hook.HandlerRequest) (*hook.HandlerResponse, error){}}
}

// respond sets how a handler responds from now on.
func (e *fakeHandler) respond(handler string, how func(n *hook.HandlerRequest) (*hook.HandlerResponse, error)) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.responses[handler] = how
}

// answer lets a handler respond the same from now on.
func (e *fakeHandler) answer(handler string, response *hook.HandlerResponse, err error) {
	e.respond(handler, func(*hook.HandlerRequest) (*hook.HandlerResponse, error) { return response, err })
}

func (e *fakeHandler) Handle(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	e.lock.Lock()
	how := e.responses[n.Handler]
	st := e.env
	e.lock.Unlock()
	line := fmt.Sprintf("%s %s %s", n.Handler, strings.ToLower(string(n.Reason)), n.Name)
	for _, c := range n.Changes {
		line += fmt.Sprintf(" %s:%s->%s", c.Path, c.From, c.To)
	}
	if n.Attempt > 0 {
		line += fmt.Sprintf(" attempt %d", n.Attempt)
	}
	if n.Deleted {
		line += " gone"
	}
	st.recordCall(line)
	if how == nil {
		return &hook.HandlerResponse{}, nil
	}
	return how(n)
}

func (e *fakeHandler) start(t *testing.T, s *server, p Program) *testEnv {
	st := &testEnv{server: s}
	e.lock.Lock()
	e.env = st
	e.lock.Unlock()
	st.Controller = New(p, s.tools(st))
	end := lead(st.Controller)
	st.stop = sync.OnceFunc(func() { end(); st.Close() })
	t.Cleanup(st.stop)
	return st
}

// lead runs a controller until the end of its leadership.
func lead(c *Controller) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return func() { cancel(); <-ended }
}

func stateIn(o map[string]any) lasthandled.Record {
	text, _ := field(o, "metadata", "annotations", "setpoint.dev/handled-by-test").(string)
	if os.Getenv(stateLocationVariable) == "status" {
		text, _ = field(o, "status", lasthandled.StatusField, "test").(string)
	}
	var r lasthandled.Record
	_ = json.Unmarshal([]byte(text), &r)
	return r
}

func TestCreateThenUpdate(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.create(rates, "eur", `{"spec":{"currency":"EUR"}}`)
	st := e.start(t, s, program(
		trigger.Handler{Name: "both", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e},
		trigger.Handler{Name: "late", On: []hook.Reason{hook.ReasonUpdate}, Fields: [][]string{{"spec", "currency"}}, Do: e},
	))
	st.expectCalls(t, "both create eur")
	s.expectWrites("PATCH", 1)
	s.edit(rates, "eur", `{"spec":{"currency":"USD"}}`)
	st.expectCalls(t, "both create eur", `both update eur spec.currency:"EUR"->"USD"`, `late update eur spec.currency:"EUR"->"USD"`)
	s.expectWrites("PATCH", 3)
	s.edit(rates, "eur", `{"spec":{"note":"x"}}`)
	st.expectCalls(t, "both create eur", `both update eur spec.currency:"EUR"->"USD"`, `late update eur spec.currency:"EUR"->"USD"`, `both update eur spec.note:->"x"`)
	s.edit(rates, "eur", `{"status":{"seen":true}}`)
	st.expectCalls(t, st.calledLines()...)
	s.expectWrites("PATCH", 4)
}

// A change during a restart is an update; an unchanged object is resumed.
func TestRestart(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(
		trigger.Handler{Name: "u", On: []hook.Reason{hook.ReasonUpdate, hook.ReasonResume}, Do: e},
		trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}, Do: e},
	)
	s.create(rates, "a", `{"spec":{"n":1}}`)
	s.create(rates, "b", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCallsInAnyOrder(t, "c create a", "c create b")
	st.stop()
	s.edit(rates, "b", `{"spec":{"n":2}}`)
	s.create(rates, "c", `{"spec":{"n":1}}`)
	st = e.start(t, s, p)
	st.expectCallsInAnyOrder(t, "c create c", "u resume a", "u update b")
}

// All handlers that saw the former state see an edit while another handler retries, and none
// is called twice for it.
func TestNoLostUpdates(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	fail := func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return nil, &hook.RetryAfterError{After: 20 * time.Millisecond, Err: errors.New("not yet")}
	}
	e.respond("c2", fail)
	both := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	st := e.start(t, s, program(trigger.Handler{Name: "c1", On: both, Do: e}, trigger.Handler{Name: "c2", On: both, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":"A"}}`)
	eventually(t, "attempts", func() bool { return len(st.calledLines()) > 3 })
	s.edit(rates, "eur", `{"spec":{"n":"B"}}`)
	eventually(t, "c1 hears of B", func() bool { return slices.Contains(st.calledLines(), `c1 update eur spec.n:"A"->"B"`) })
	e.respond("c2", nil)
	eventually(t, "c2 done", func() bool { return stateIn(s.get(rates, "eur"))["c2"].Digest != "" })
	st.waitIdle(t)
	received := 0
	for _, line := range st.calledLines() {
		if strings.HasPrefix(line, "c1") {
			received++
		}
	}
	if received != 2 {
		t.Errorf("c1 was called %d times: %q", received, st.calledLines())
	}
	r := stateIn(s.get(rates, "eur"))
	if r["c1"].Digest != r["c2"].Digest {
		t.Errorf("not the same state: %v", r)
	}
}

// A failed write is retried without another call of the handler.
func TestFailedWritesAreRetried(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{
		Patch: json.RawMessage(`{"spec":{"comment":"nice"}}`), Status: json.RawMessage(`{"rate":1}`),
		Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"rate":"1"}}`)}},
	}, nil)
	refused := 0
	s.reject = func(method, path string, body map[string]any) int {
		if strings.HasSuffix(path, "/status") && refused < 2 {
			refused++
			return 422
		}
		return 0
	}
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "written", func() bool {
		o := s.get(rates, "eur")
		return field(o, "status", "rate") != nil && field(o, "spec", "comment") == "nice" && stateIn(o)["h"].Digest != ""
	})
	st.expectCalls(t, "h create eur")
	if refused != 2 {
		t.Errorf("refused %d times", refused)
	}
	s.expectWrites("POST configmaps", 1)
	owner := field(s.get(configMaps, "eur"), "metadata", "ownerReferences")
	if !strings.Contains(text(owner), `"controller":true`) {
		t.Errorf("owned by %s", text(owner))
	}
}

// A handler that watches what it writes does not trigger itself, even if the server stores
// something else.
func TestOwnWritesDoNotTrigger(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.admit = func(path string, o map[string]any) {
		if spec, is := o["spec"].(map[string]any); is {
			delete(spec, "pruned")
		}
	}
	e.answer("h", &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"comment":"nice","pruned":1}}`)}, nil)
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	s.edit(rates, "eur", `{"spec":{"comment":"spoilt"}}`)
	st.expectCalls(t, "h create eur", `h update eur spec.comment:"nice"->"spoilt"`)
	eventually(t, "restored", func() bool { return field(s.get(rates, "eur"), "spec", "comment") == "nice" })
}

// A deletion waits for a Delete handler, if there is one.
func TestDeletion(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Do: e,
		When: func(_, now *object.Object) bool { return now.Labels().Get("keep") == "yes" }}))
	s.create(rates, "kept", `{"metadata":{"labels":{"keep":"yes"}}}`)
	s.create(rates, "free", `{}`)
	eventually(t, "held", func() bool { return strings.Contains(text(s.get(rates, "kept")), finalizer) })
	e.respond("d", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if n.Attempt < 2 {
			return nil, &hook.RetryAfterError{After: time.Millisecond, Err: errors.New("busy")}
		}
		return nil, nil
	})
	s.drop(rates, "free")
	s.drop(rates, "kept")
	eventually(t, "gone", func() bool { return s.get(rates, "kept") == nil })
	st.expectCalls(t, "d delete kept", "d delete kept attempt 1", "d delete kept attempt 2")
	// Fault U7: the history has the deletions and their times.
	eventually(t, "recorded", func() bool {
		st.lock.Lock()
		defer st.lock.Unlock()
		names := map[string]bool{}
		for _, d := range st.deletions {
			names[d.Object.Name] = d.Outcome == record.Deleted && d.Object.UID != "" && !d.Began.IsZero()
		}
		return len(st.deletions) == 2 && names["free"] && names["kept"]
	})
}

// The finalizer is removed when it is not needed any more.
func TestFinalizerOfUnselectedObject(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Do: e})
	p.Labels = "keep=yes"
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"metadata":{"labels":{"keep":"yes"}}}`)
	eventually(t, "held", func() bool { return strings.Contains(text(s.get(rates, "eur")), finalizer) })
	s.edit(rates, "eur", `{"metadata":{"labels":null}}`)
	eventually(t, "released", func() bool { return !strings.Contains(text(s.get(rates, "eur")), finalizer) })
	st.expectCalls(t)
}

// A terminal error is reported, recorded, and not retried until the input changes.
func TestTerminal(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", nil, &hook.TerminalError{Err: errors.New("unknown currency")})
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1},"status":{"conditions":[]}}`)
	st.expectCalls(t, "h create eur")
	o := s.get(rates, "eur")
	if !stateIn(o)["h"].Failed || !strings.Contains(text(field(o, "status", "conditions")), `gave up: handler h: unknown currency`) {
		t.Errorf("left as %s", text(o))
	}
	e.respond("h", nil)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h create eur", "h update eur spec.n:1->2")
	eventually(t, "well again", func() bool {
		return strings.Contains(text(field(s.get(rates, "eur"), "status", "conditions")), `"status":"True"`)
	})
	if stateIn(s.get(rates, "eur"))["h"].Failed {
		t.Error("still failed")
	}
}

// The first failure adds a condition, if the kind can have conditions.
func TestFirstCondition(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", nil, errors.New("the service is down"))
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Conditions = true
	e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "event", func() bool {
		return strings.Contains(text(field(s.get(rates, "eur"), "status", "conditions")), "handler h: the service is down")
	})
}

// Another client's change or deletion of an owned object is drift, also during a restart.
func TestDrift(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"rate":"1"}}`)}}}, nil
	})
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonDrift}, Do: e})
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	s.drop(configMaps, "eur")
	st.expectCalls(t, "h create eur", "h drift eur")
	s.edit(configMaps, "eur", `{"data":{"rate":"2"}}`)
	st.expectCalls(t, "h create eur", "h drift eur", "h drift eur")
	if field(s.get(configMaps, "eur"), "data", "rate") != "1" {
		t.Error("not restored")
	}
	st.stop()
	s.edit(configMaps, "eur", `{"data":{"rate":"2"}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "h drift eur")
}

// Later handlers of a run see the responses of earlier ones. Otherwise a handler that restores
// what the status says would undo their work, unnoticed.
func TestLaterHandlersSeeEarlierResponses(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	apply := func(rate any) []hook.AppliedObject {
		return []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"rate":"` + fmt.Sprint(rate) + `"}}`)}}
	}
	rateIn := func(o []byte, part string) any { return field(object.DecodeOrEmpty(o), part, "n") }
	e.respond("publish", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		rate := rateIn(n.Object, "spec")
		return &hook.HandlerResponse{Apply: apply(rate), Status: json.RawMessage(fmt.Sprintf(`{"n":%v}`, rate))}, nil
	})
	e.respond("restore", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{Apply: apply(rateIn(n.Object, "status"))}, nil
	})
	p := program(
		trigger.Handler{Name: "publish", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e},
		trigger.Handler{Name: "restore", On: []hook.Reason{hook.ReasonDrift}, Do: e})
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "publish create eur")
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	s.edit(configMaps, "eur", `{"data":{"rate":"7"}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "publish update eur", "restore drift eur")
	if got := field(s.get(configMaps, "eur"), "data", "rate"); got != "2" {
		t.Errorf("the ConfigMap has %v", got)
	}
}

// A timer whose owned objects are unchanged sends no requests, and restores changed ones.
func TestUnchangedObjectsAreNotApplied(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	rate := "1"
	e.respond("t", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		e.lock.Lock()
		defer e.lock.Unlock()
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"rate":"` + rate + `"}}`)},
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`)},
		}}, nil
	})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, program(trigger.Handler{Name: "t", Every: 20 * time.Millisecond, Do: e}))
	received := func() int { return len(st.calledLines()) }
	rounds := func(n int) {
		t.Helper()
		former := received()
		eventually(t, "called again", func() bool { return received() >= former+n })
	}
	applied := func() int { return len(s.wrote("POST configmaps/")) + len(s.wrote("PATCH configmaps/")) }
	rounds(5)
	if n := applied(); n != 2 {
		t.Errorf("%d requests for what stays the same", n)
	}
	s.edit(configMaps, "eur", `{"data":{"rate":"7"}}`)
	eventually(t, "restored", func() bool { return field(s.get(configMaps, "eur"), "data", "rate") == "1" })
	s.drop(configMaps, "other")
	eventually(t, "made again", func() bool { return s.get(configMaps, "other") != nil })
	e.lock.Lock()
	rate = "2"
	e.lock.Unlock()
	eventually(t, "brought in line", func() bool { return field(s.get(configMaps, "eur"), "data", "rate") == "2" })
	rounds(3)
	if n := applied(); n != 5 {
		t.Errorf("%d requests for two objects and three changes: %q", n, s.wrote("PATCH configmaps/"))
	}
}
