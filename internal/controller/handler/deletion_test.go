package handler

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Finalizers of a former controller go with the first write, which adds the own one if it is
// needed; they hold an object that is being deleted for the handlers.
func TestReplacedFinalizers(t *testing.T) {
	onDeletion := trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}}
	for name, c := range map[string]struct {
		handler  trigger.Handler
		deleted  bool
		want     string
		deletion int
		writes   int
	}{
		"needed":                            {onDeletion, false, "[other/one setpoint.dev/test]", 0, 1},
		"not needed":                        {trigger.Handler{Name: "e", On: []hook.Reason{hook.ReasonEvent}}, false, "[other/one]", 0, 1},
		"with a record":                     {trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}}, false, "[other/one]", 0, 1},
		"deleted":                           {onDeletion, true, "[other/one]", 1, 1},
		"deleted, without a Delete handler": {trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}}, true, "[other/one]", 0, 1},
		"not selected":                      {with(onDeletion, func(h *trigger.Handler) { h.Name = "unselected" }), false, "[kopf.dev/kopf other/one]", 0, 0},
		"for other objects":                 {with(onDeletion, func(h *trigger.Handler) { h.When = func(_, _ *object.Object) bool { return false } }), false, "[kopf.dev/kopf other/one]", 0, 0},
	} {
		runInBubble(t, name, func(t *testing.T, s *server) {
			s.create(rates, "eur", `{"metadata":{"finalizers":["kopf.dev/kopf","other/one"]}}`)
			if c.deleted {
				s.drop(rates, "eur")
			}
			p := program(c.handler)
			p.ReplacedFinalizers = []string{"kopf.dev/kopf"}
			if c.handler.Name == "unselected" {
				p.Labels = "a=b"
			}
			w := startEnv(s, p, s, nil)
			pass(time.Minute)
			if got := finalizersOf(s); got != c.want || len(w.callsOf("d", "")) != c.deletion || len(s.wrote("PATCH")) != c.writes {
				t.Errorf("finalizers %s, want %s, after %v and %q", got, c.want, w.callsOf("d", ""), s.wrote("PATCH"))
			}
		})
	}
}

// An object that a former controller has handled is new to handlers of updates; another one is
// taken for granted.
func TestReplacedAnnotation(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "former", `{"metadata":{"annotations":{"kopf.dev/last":"{}"}},"spec":{"n":1}}`)
		s.create(rates, "other", `{"spec":{"n":1}}`)
		p := program(trigger.Handler{Name: "changed", On: []hook.Reason{hook.ReasonUpdate}})
		p.ReplacedAnnotation = "kopf.dev/last"
		w := startEnv(s, p, s, nil)
		pass(time.Second)
		if made := w.callsOf("changed", "former"); len(made) != 1 || made[0].reason != hook.ReasonCreate {
			t.Errorf("calls for the object of a former controller: %+v, want one with the reason Create", made)
		}
		w.expectCalls(t, "changed", "other", 0)
		s.edit(rates, "former", `{"metadata":{"annotations":{"kopf.dev/last":null}}}`)
		s.edit(rates, "other", `{"spec":{"n":2}}`)
		pass(time.Second)
		if made := w.callsOf("changed", "other"); len(made) != 1 || made[0].reason != hook.ReasonUpdate {
			t.Errorf("calls for the other object: %+v, want one with the reason Update", made)
		}
	})
}

// A deletion that takes longer says once what it waits for: the handler that asks for another call, or the daemon.
func TestDeletionSaysWhatItWaitsFor(t *testing.T) {
	slow := func(ctx context.Context, _ *hook.HandlerRequest, _ trigger.Live) error {
		<-ctx.Done()
		elapse(25 * time.Second)
		return nil
	}
	for want, h := range map[string]trigger.Handler{
		"eur Finalizing the deletion waits for the answer of the handler h that it is done": {Name: "h", On: []hook.Reason{hook.ReasonDelete}},
		"eur Finalizing the deletion waits until the daemon d has returned":                 {Name: "d", Daemon: slow},
	} {
		runInBubble(t, h.Name, func(t *testing.T, s *server) {
			s.create(rates, "eur", `{}`)
			calls := 0
			w := startEnv(s, program(h), s, map[string]handlerFunc{"h": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				calls++
				if calls > 5 {
					return &hook.HandlerResponse{}, nil
				}
				return &hook.HandlerResponse{RetryAfter: 5 * time.Second}, nil
			}})
			pass(time.Second)
			s.drop(rates, "eur")
			pass(9 * time.Second)
			w.expectEvents(t)
			pass(20 * time.Second)
			w.expectEvents(t, want)
			pass(time.Minute)
			if s.get(rates, "eur") != nil || len(w.eventLines()) != 1 {
				t.Errorf("not deleted, or events %q", w.eventLines())
			}
		})
	}
}

func TestHandBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"metadata":{"labels":{"a":"b"}},"spec":{"n":1},"status":{"phase":"New","other":1}}`)
		both := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
		p := program(trigger.Handler{Name: "all", On: both}, trigger.Handler{Name: "phase", On: both, Fields: [][]string{{"status", "phase"}}})
		p.ReplacedAnnotation = "kopf.dev/last"
		w := startEnv(s, p, s, nil)
		pass(time.Second)
		w.stop()
		back := handBackOf(t, s, &p)
		const want = `{"metadata":{"labels":{"a":"b"}},"spec":{"n":1},"status":{"phase":"New"}}` + "\n"
		patch := object.DecodeOrEmpty(back.Object)
		if got := field(patch, "metadata", "annotations", "kopf.dev/last"); got != want || back.Outdated {
			t.Errorf("annotation %q, want %q", got, want)
		}
		if record, removed := field(patch, "metadata", "annotations").(map[string]any)[p.Record.Annotation]; record != nil || !removed {
			t.Errorf("the patch %s does not remove the record", back.Object)
		}
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		if back := handBackOf(t, s, &p); !back.Outdated || field(object.DecodeOrEmpty(back.Object), "metadata", "annotations", "kopf.dev/last") != nil {
			t.Errorf("the patch %s of an object with a change that is not handled has a state", back.Object)
		}
		s.edit(rates, "eur", string(back.Object))
		if again := handBackOf(t, s, &p); again.Object != nil {
			t.Errorf("the patch %s of an object without a record", again.Object)
		}
	})
}

// A creation that is handled stays handled: an edit that no handler is for is no reason for a second one.
func TestHandBackAfterAnEditThatNoHandlerIsFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		p := program(trigger.Handler{Name: "made", On: []hook.Reason{hook.ReasonCreate}})
		p.ReplacedAnnotation = "kopf.dev/last"
		w := startEnv(s, p, s, nil)
		pass(time.Second)
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		pass(time.Second)
		w.stop()
		back := handBackOf(t, s, &p)
		if got := field(object.DecodeOrEmpty(back.Object), "metadata", "annotations", "kopf.dev/last"); back.Outdated || got != `{"spec":{"n":2}}`+"\n" {
			t.Errorf("annotation %q, outdated %t", got, back.Outdated)
		}
	})
}

func handBackOf(t *testing.T, s *server, p *Program) HandBack {
	t.Helper()
	o := must.Get(object.Encode(s.get(rates, "eur"))).In(t)
	return must.Get(p.HandBack(o)).In(t)
}

// A process may end after a handler was called and before its record is written. If the edit is taken back meanwhile,
// the object is as recorded, and the handler has to be called all the same.
func TestEditUndoneAfterTheProcessEnded(t *testing.T) {
	for name, c := range map[string]struct {
		fields [][]string
		// edits come after the process has ended in the middle of a call for n=2.
		edits []string
		calls []string
	}{
		"undone":                          {nil, []string{`{"spec":{"n":1}}`}, []string{"h update eur"}},
		"undone, of a field":              {[][]string{{"spec", "n"}}, []string{`{"spec":{"n":1}}`}, []string{"h update eur"}},
		"undone, and a label set":         {[][]string{{"spec"}}, []string{`{"spec":{"n":1}}`, `{"metadata":{"labels":{"x":"y"}}}`}, []string{"h update eur"}},
		"undone, and another field set":   {[][]string{{"spec", "n"}}, []string{`{"spec":{"n":1}}`, `{"spec":{"m":1}}`}, nil},
		"kept":                            {nil, nil, []string{"h update eur"}},
		"undone, of a label among fields": {[][]string{{"metadata", "labels"}}, []string{`{"spec":{"n":1}}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: c.fields, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, p)
			st.expectCalls(t, "h create eur")
			called := make(chan struct{}, 1)
			s.setReject(func(method, path string, _ map[string]any) int {
				if method != http.MethodPatch || !strings.Contains(path, "rates") {
					return 0
				}
				select {
				case called <- struct{}{}:
				default:
				}
				return http.StatusServiceUnavailable
			})
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			if c.fields == nil || c.fields[0][0] == "spec" {
				<-called
			}
			st.stop()
			s.setReject(nil)
			for _, patch := range c.edits {
				s.edit(rates, "eur", patch)
			}
			st = e.start(t, s, p)
			st.expectCalls(t, c.calls...)
			st.stop()
			st = e.start(t, s, p)
			st.expectCalls(t)
		})
	}
}

// What a handler changes itself is no edit that was undone, after a restart either.
func TestOwnPatchIsNoUndoneEdit(t *testing.T) {
	for _, location := range []string{"annotation", "status"} {
		t.Run(location, func(t *testing.T) {
			t.Setenv(stateLocationVariable, location)
			s, e := newServer(t), newFakeHandler()
			e.answer("h", &hook.HandlerResponse{Patch: []byte(`{"spec":{"seen":true}}`), Status: []byte(`{"seen":true}`)}, nil)
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, p)
			st.expectCalls(t, "h create eur")
			st.stop()
			st = e.start(t, s, p)
			st.expectCalls(t)
		})
	}
}

// A record of an earlier release has no generation, and says nothing of edits.
func TestRecordWithoutGeneration(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "h create eur")
	st.stop()
	state := stateIn(s.get(rates, "eur"))
	former := state["h"]
	former.Edition = lasthandled.Edition{}
	state["h"] = former
	s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/handled-by-test":`+strconv.Quote(state.String())+`}}}`)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	s.edit(rates, "eur", `{"spec":{"n":1}}`)
	st = e.start(t, s, p)
	st.expectCalls(t)
}

func with(h trigger.Handler, change func(*trigger.Handler)) trigger.Handler {
	change(&h)
	return h
}
