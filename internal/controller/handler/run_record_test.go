package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// runLines returns the runs that did something, one line each.
func (s *testEnv) runLines() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	var all []string
	for i := range s.runs {
		if run := &s.runs[i]; !run.IsNoop() {
			all = append(all, runLine(run))
		}
	}
	return all
}

// runLine returns a short form of a run: its outcome, the failures before, and its steps.
func runLine(run *record.Run) string {
	words := []string{run.Outcome}
	if run.Attempt > 0 {
		words = append(words, fmt.Sprint("after ", run.Attempt))
	}
	if run.Trigger != "" {
		words = append(words, "("+run.Trigger+")")
	}
	for _, s := range run.Steps {
		switch {
		case s.Call != nil && s.Call.Err != nil:
			words = append(words, s.Call.Name+"!"+s.Call.Err.Error())
		case s.Call != nil:
			words = append(words, s.Call.Name+"?"+strings.ToLower(s.Call.Reason))
		case s.Write != nil && s.Write.Err != nil:
			words = append(words, "refused "+s.Write.Verb+" "+s.Write.Object.String())
		case s.Write != nil:
			words = append(words, strings.TrimSpace(s.Write.Verb+" "+s.Write.Object.Kind.Kind+" "+s.Write.Part))
		case s.Event != nil:
			words = append(words, "event "+s.Event.Reason)
		}
	}
	return strings.Join(words, ", ")
}

// The record of a creation has the calls and the writes, that of a failing handler its
// attempts and the next retry, that of a conflict the changed object.
func TestRunRecords(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{
		Status: json.RawMessage(`{"rate":1}`), Events: []hook.Event{{Type: "Normal", Reason: "Published", Message: "done"}},
		Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"rate":"1"}}`)}},
	}, nil)
	st := e.start(t, s, program(trigger.Handler{
		Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Do: e,
	}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.waitIdle(t)
	created := "synced, h?create, create ConfigMap, patch Rate status, patch Rate metadata, event Published"
	if st.program.Record.StatusKey != "" {
		created = "synced, h?create, create ConfigMap, patch Rate status, event Published"
	}
	st.expectRuns(t, created)
	hookCall := st.runAt(0).Steps[0].Call
	if string(hookCall.Sent.Handler.Object) == "" || hookCall.Sent.Handler.Reader != nil || len(hookCall.Received.Handler.Apply) != 1 {
		t.Errorf("request %+v", hookCall)
	}
	if run := st.runAt(0); run.Object.Name != "eur" || run.Object.Kind != object.KindOf(rates) || run.Object.UID == "" || run.Controller != "test" || run.Took <= 0 || run.Began.IsZero() {
		t.Errorf("ran %+v", run)
	}

	failed := 0
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		failed++
		if failed <= 2 {
			return nil, errors.New("no money")
		}
		return &hook.HandlerResponse{}, nil
	})
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	eventually(t, "three calls", func() bool { return len(st.runLines()) > 3 })
	st.waitIdle(t)
	last := len(st.runLines()) - 1
	failing := st.runAt(1)
	if failing.Err == nil || !strings.Contains(failing.Err.Error(), "no money") || failing.Next.IsZero() {
		t.Errorf("failed with %v, next %v", failing.Err, failing.Next)
	}
	got := st.runLines()[1:]
	if !strings.HasPrefix(got[0], "failed, h!no money") || !strings.HasPrefix(got[1], "failed, after 1, h!no money") || !strings.HasPrefix(got[len(got)-1], "synced, after 2, h?update, patch Rate") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}

	refused := false
	s.reject = func(method, path string, _ map[string]any) int {
		if method == "PATCH" && strings.HasSuffix(path, "rates/eur") && !refused {
			refused = true
			return 409
		}
		return 0
	}
	e.answer("h", &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"comment":"x"}}`)}, nil)
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	eventually(t, "written", func() bool { return field(s.get(rates, "eur"), "spec", "comment") == "x" })
	st.waitIdle(t)
	conflict := st.runAt(last + 1)
	if conflict.Outcome != record.Postponed || !errors.Is(conflict.Err, controller.ErrConflict) || !strings.Contains(runLine(&conflict), "refused patch Rate town/eur") {
		t.Errorf("a conflict: %s, %v", runLine(&conflict), conflict.Err)
	}
}

func (s *testEnv) expectRuns(t *testing.T, want ...string) {
	t.Helper()
	if got := s.runLines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// runAt returns the i-th run that did something.
func (s *testEnv) runAt(i int) record.Run {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, run := range s.runs {
		if run.IsNoop() {
			continue
		}
		if i == 0 {
			return run
		}
		i--
	}
	return record.Run{}
}

// The writes of a daemon, and the calls for a deleted object, have records of their own.
func TestDetachedRunRecords(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "end", On: []hook.Reason{hook.ReasonDelete}, Optional: true, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.waitIdle(t)
	s.drop(rates, "eur")
	eventually(t, "called for the deletion", func() bool { return slices.Contains(st.runLines(), "synced, (it is gone), end?delete") })
}

// A daemon without a change to write makes no record, and one that was interrupted has not
// failed.
func TestDaemonRunRecords(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "end", On: []hook.Reason{hook.ReasonDelete}, Optional: true, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.waitIdle(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx   context.Context
		err   error
		steps bool
		want  record.Outcome
	}{
		{t.Context(), nil, false, record.Skipped},
		{t.Context(), nil, true, record.Synced},
		{t.Context(), errors.New("no"), false, record.Failed},
		{stopped, context.Canceled, false, record.Postponed},
	} {
		_, run := st.NewDetachedRun(t.Context(), st.Objects()[0], "a test")
		if c.steps {
			run.Record.EventSent(hook.Event{})
		}
		run.FinishDetached(c.ctx, c.err)
		st.lock.Lock()
		ran := st.runs[len(st.runs)-1]
		st.lock.Unlock()
		if ran.Outcome != c.want || ran.IsNoop() != (c.want == record.Skipped || c.want == record.Postponed) {
			t.Errorf("%v, steps %v: %s", c.err, c.steps, ran.Outcome)
		}
	}
}

// ObjectStates can be called at any time.
func TestObjectStates(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if n.Name == "bad" {
			return nil, errors.New("no money")
		}
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + n.Name + `"}}`)}}}, nil
	})
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, MaxBackoff: time.Hour, Do: e}))
	s.create(rates, "good", `{}`)
	s.create(rates, "bad", `{}`)
	s.create(rates, "paused", `{"metadata":{"annotations":{"setpoint.dev/paused":"true"}}}`)
	st.waitIdle(t)
	said := map[string]string{}
	for _, c := range st.ObjectStates() {
		said[c.Object.Name()] = fmt.Sprintf("failing %t %d %q %s, %s, paused %t, waiting %t, ran %t, next %t, %d owned",
			c.Failing, c.Attempts, c.Error, c.Reason, faultKind(c.Fault), c.Paused, c.Queued, !c.LastRun.IsZero(), !c.NextRun.IsZero(), c.Children)
	}
	for name, want := range map[string]string{
		"good":   `failing false 0 "" , , paused false, waiting false, ran true, next false, 1 owned`,
		"bad":    `failing true 1 "handler h: no money" HandlerFailed, handler, paused false, waiting false, ran true, next true, 0 owned`,
		"paused": `failing false 0 "" , , paused true, waiting false, ran true, next false, 0 owned`,
	} {
		if said[name] != want {
			t.Errorf("%s: %s\nwant %s", name, said[name], want)
		}
	}
	good, is := st.ObjectState(controller.KeyOf(st.Objects()[1]))
	if !is || len(st.Children(good.Object)) != 1 {
		t.Errorf("the family of %v is %v", good.Object, st.Children(good.Object))
	}
	st.stop()
	if good, is = st.ObjectState(controller.KeyOf(good.Object)); !is || !good.Standby || good.Queued {
		t.Errorf("of who does not work: %+v", good)
	}
}

// The error of a rejected write may quote what was written, whether by a run or by a daemon,
// so its locations are recorded.
func TestObjectStateLocations(t *testing.T) {
	sign := &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign"}}`)}}}
	daemon := func(_ context.Context, _ *hook.HandlerRequest, existing trigger.Live) error {
		_, err := existing.Respond(sign)
		return err
	}
	for name, h := range map[string]func(*fakeHandler) trigger.Handler{
		"a run": func(e *fakeHandler) trigger.Handler {
			return trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e}
		},
		"a daemon": func(*fakeHandler) trigger.Handler {
			return trigger.Handler{Name: "h", Daemon: daemon, Backoff: time.Hour}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			e.answer("h", sign, nil)
			s.reject = rejects(403, func(_, path string, _ map[string]any) bool {
				return strings.Contains(path, "configmaps")
			})
			st := e.start(t, s, program(h(e)))
			s.create(rates, "eur", `{}`)
			var state record.ObjectState
			eventually(t, "failed", func() bool {
				if all := st.ObjectStates(); len(all) == 1 {
					state = all[0]
				}
				return state.Failing
			})
			if len(state.Locations) != 1 || state.Locations[0].Kind.Kind != "ConfigMap" || state.Locations[0].Namespace != "town" {
				t.Errorf("%q among %v", state.Error, state.Locations)
			}
		})
	}
}

func faultKind(f *failure.Fault) failure.FaultKind {
	if f == nil {
		return ""
	}
	return f.Kind
}

// Objects of the first list are Listed, also after a change of the leader; a later list has
// only differences.
func TestEventTypes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		var calls callLog
		p := program(trigger.Handler{Name: "e", On: []hook.Reason{hook.ReasonEvent}})
		do := map[string]handlerFunc{"e": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			calls.add(fmt.Sprintf("%s %s", n.Event, n.Name))
			return &hook.HandlerResponse{}, nil
		}}
		expect := func(want ...string) {
			t.Helper()
			pass(time.Minute)
			if lines := slices.Sorted(slices.Values(calls.take())); !slices.Equal(lines, want) {
				t.Errorf("called for %q, want %q", lines, want)
			}
		}
		w := startEnv(s, p, s, do)
		expect("Listed eur")
		s.create(rates, "usd", `{"spec":{"n":1}}`)
		s.edit(rates, "eur", `{"status":{"n":1}}`)
		expect("Added usd", "Modified eur")
		s.drop(rates, "usd")
		expect("Deleted usd")
		s.breakWatches()
		s.create(rates, "chf", `{}`)
		s.edit(rates, "eur", `{"status":{"n":2}}`)
		expect("Added chf", "Modified eur")
		s.breakWatches()
		s.drop(rates, "chf")
		s.create(rates, "chf", `{}`)
		expect("Added chf", "Deleted chf")
		w.stop()
		startEnv(s, p, s, do)
		expect("Listed chf", "Listed eur")
	})
}

// spanningHandler starts a span of its own in each call, as handlers of users do.
type spanningHandler struct{ *fakeHandler }

func (h spanningHandler) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	_, own := oteltrace.SpanFromContext(ctx).TracerProvider().Tracer("user").Start(ctx, "read the rate")
	defer own.End()
	return h.fakeHandler.Handle(ctx, n)
}

// A run, the call of its handler, what the handler does, and the writes are one trace, which requests carry to the API
// server. A retry links the attempt before.
func TestHandlersHaveTheirSpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	s, e := newServer(t), newFakeHandler()
	s.tracer = trace.New(sdk.NewTracerProvider(sdk.WithSyncer(spans)), "test", false)
	failed := false
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if !failed {
			failed = true
			return nil, errors.New("no money")
		}
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"}}`)},
		}}, nil
	})
	st := e.start(t, s, program(trigger.Handler{
		Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Do: spanningHandler{e},
	}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "applied", func() bool { return s.get(configMaps, "eur") != nil })
	st.waitIdle(t)

	byName, last := map[string]tracetest.SpanStub{}, spans.GetSpans()
	var runs []tracetest.SpanStub
	for _, span := range last {
		byName[span.Name] = span
		if span.Name == "reconcile Rate" && span.ChildSpanCount > 0 {
			runs = append(runs, span)
		}
	}
	if runs[0].Status.Code != codes.Error || !strings.Contains(runs[0].Status.Description, "no money") {
		t.Errorf("the failed run has the status %+v", runs[0].Status)
	}
	run := runs[1]
	if len(run.Links) == 0 || run.Links[len(run.Links)-1].SpanContext.SpanID() != runs[0].SpanContext.SpanID() {
		t.Errorf("the retry has the links %+v", run.Links)
	}
	for below, above := range map[string]tracetest.SpanStub{"handler h": run, "read the rate": byName["handler h"], "create configmaps": run} {
		if span := byName[below]; span.Parent.SpanID() != above.SpanContext.SpanID() {
			t.Errorf("%q is not below %q", below, above.Name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	created := byName["create configmaps"].SpanContext
	for i, write := range s.writes {
		if strings.HasPrefix(write, "POST configmaps/") && s.traceparents[i] != "00-"+created.TraceID().String()+"-"+created.SpanID().String()+"-01" {
			t.Errorf("%s has the traceparent %q", write, s.traceparents[i])
		}
	}
}
