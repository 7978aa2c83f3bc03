package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault H4: runtime.Goexit, which t.FailNow calls, ended a worker for each object, until none
// was left.
func TestGoexitKeepsWorker(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("c", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if strings.HasPrefix(n.Name, "bad") {
			runtime.Goexit()
		}
		return &hook.HandlerResponse{}, nil
	})
	e.respond("t", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) { new(testing.T).FailNow(); return nil, nil })
	p := program(
		trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, Do: e},
		trigger.Handler{Name: "t", Every: 10 * time.Millisecond, Do: e, When: isNamed("bad-0")},
		trigger.Handler{Name: "w", On: []hook.Reason{hook.ReasonCreate}, Do: e, When: func(_, _ *object.Object) bool { runtime.Goexit(); return true }},
	)
	p.Workers = 2
	st := e.start(t, s, p)
	for i := range 5 {
		s.create(rates, fmt.Sprint("bad-", i), `{}`)
	}
	eventually(t, "the timer twice", func() bool { return st.wasCalled("t timer bad-0 attempt 1") })
	s.create(rates, "good", `{}`)
	eventually(t, "handled", func() bool { return stateIn(s.get(rates, "good"))["c"].Digest != "" })
	want := "bad-4 HandlerFailed handler c: the handler called runtime.Goexit, as t.FailNow does: return an error instead"
	eventuallyOr(t, func() bool { return strings.Contains(text(st.eventLines()), want) }, func() string { return text(st.eventLines()) })
	for _, line := range st.calledLines() {
		if strings.HasPrefix(line, "w ") {
			t.Errorf("a condition that ended is taken for met: %s", line)
		}
	}
}

// Fault H4: a daemon that ended its goroutine counted as running forever.
func TestDaemonGoexit(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	var starts atomic.Int32
	st := e.start(t, s, program(trigger.Handler{Name: "d", Backoff: time.Millisecond,
		Daemon: func(ctx context.Context, _ *hook.HandlerRequest, _ trigger.Live) error {
			if starts.Add(1) < 3 {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}}))
	s.create(rates, "eur", `{}`)
	eventually(t, "started again", func() bool { return starts.Load() == 3 })
	if received := text(st.eventLines()); !strings.Contains(received, "daemon d: the daemon called runtime.Goexit") {
		t.Errorf("got %s", received)
	}
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
}

func isNamed(name string) func(old, now *object.Object) bool {
	return func(_, now *object.Object) bool { return now.Name() == name }
}

// relatedProgram is a program whose related objects name in spec.for the object that they are
// for.
func relatedProgram(handlers ...trigger.Handler) Program {
	p := program(handlers...)
	p.Owns, p.Related = nil, []Related{{Resource: configMaps, Map: func(o *object.Object) []types.NamespacedName {
		name, _ := field(object.DecodeOrEmpty(o.JSON()), "data", "for").(string)
		return []types.NamespacedName{{Namespace: o.Namespace(), Name: name}, {Namespace: o.Namespace(), Name: "unknown"}}
	}}}
	return p
}

// A change of a related object calls the handler for the objects before and after it. The
// initial list and a status of the same content do not.
func TestRelated(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.create(rates, "eur", `{}`)
	s.create(rates, "usd", `{}`)
	s.create(configMaps, "settings", `{"data":{"for":"eur"}}`)
	st := e.start(t, s, relatedProgram(trigger.Handler{Name: "r", On: []hook.Reason{hook.ReasonRelated}, Do: e}))
	st.waitIdle(t)
	st.expectCalls(t)
	s.edit(configMaps, "settings", `{"data":{"value":"1"}}`)
	st.expectCalls(t, "r related eur")
	s.edit(configMaps, "settings", `{"data":{"for":"usd"}}`)
	eventually(t, "called for both", func() bool { return len(st.calledLines()) == 3 && st.wasCalled("r related usd") })
	s.drop(configMaps, "settings")
	eventually(t, "called for the deletion", func() bool { return len(st.calledLines()) == 4 })
	s.create(configMaps, "settings", `{"data":{"for":"none"}}`)
	st.waitIdle(t)
	if n := len(st.calledLines()); n != 4 {
		t.Errorf("called for an object that does not exist: %q", st.calledLines())
	}
	s.expectWrites("PATCH", 0)
}

// A related change is handled once, also by a call for another reason, and ends a backoff and
// the giving up of a handler.
func TestRelatedChangeRetries(t *testing.T) {
	for name, failure := range map[string]error{
		"backoff":  errors.New("no settings"),
		"given up": &hook.TerminalError{Err: errors.New("no settings")},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			var has atomic.Bool
			e.respond("r", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
				if !has.Load() {
					return nil, failure
				}
				return &hook.HandlerResponse{}, nil
			})
			s.create(rates, "eur", `{}`)
			st := e.start(t, s, relatedProgram(trigger.Handler{
				Name: "r", On: []hook.Reason{hook.ReasonCreate, hook.ReasonRelated}, Backoff: time.Hour, MaxBackoff: time.Hour, Do: e,
			}))
			st.expectCalls(t, "r create eur")
			s.create(configMaps, "settings", `{"data":{"for":"eur"}}`)
			eventually(t, "called again", func() bool { return len(st.calledLines()) == 2 })
			has.Store(true)
			s.edit(configMaps, "settings", `{"data":{"value":"1"}}`)
			eventually(t, "handled", func() bool { return st.Health().Failing == 0 && len(st.calledLines()) == 3 })
			st.waitIdle(t)
			if n := len(st.calledLines()); n != 3 {
				t.Errorf("called again for a change that is handled: %q", st.calledLines())
			}
			if got := stateIn(s.get(rates, "eur"))["r"]; got.Digest == "" || got.Failed {
				t.Errorf("recorded %+v", got)
			}
		})
	}
}

// A failed call for a related change is retried until it succeeds.
func TestRelatedIsRetried(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	var calls atomic.Int32
	e.respond("r", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if calls.Add(1) < 3 {
			return nil, errors.New("not yet")
		}
		return &hook.HandlerResponse{}, nil
	})
	s.create(rates, "eur", `{}`)
	st := e.start(t, s, relatedProgram(trigger.Handler{Name: "r", On: []hook.Reason{hook.ReasonRelated}, Backoff: time.Millisecond, Do: e}))
	st.waitIdle(t)
	s.create(configMaps, "settings", `{"data":{"for":"eur"}}`)
	st.expectCalls(t, "r related eur", "r related eur attempt 1", "r related eur attempt 2")
	eventually(t, "well", func() bool { return st.Health().Failing == 0 })
}

// A renamed handler has the record of its former name.
func TestFormerName(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	both := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, program(trigger.Handler{Name: "old", On: both, Do: e}))
	st.expectCalls(t, "old create eur")
	st.stop()
	renamed := program(trigger.Handler{Name: "new", FormerNames: []string{"older", "old"}, On: both, Do: e})
	st = e.start(t, s, renamed)
	st.waitIdle(t)
	st.expectCalls(t)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	eventually(t, "called for the change", func() bool { return len(st.calledLines()) == 1 })
	st.waitIdle(t)
	if got := stateIn(s.get(rates, "eur")); got["new"].Digest == "" || got["old"].Digest != "" {
		t.Errorf("recorded %+v", got)
	}
	st.stop()
	st = e.start(t, s, renamed)
	st.waitIdle(t)
	st.expectCalls(t)
}

// Fault R10: a response of which a part is stored is dropped for a conflict. That part is no change to the handler, which is
// called again even if what it responded to is taken back meanwhile.
func TestPartOfDroppedResponse(t *testing.T) {
	grows := func(old, now *object.Object) bool {
		return old != nil && !bytes.Equal(old.Field("spec", "n"), now.Field("spec", "n"))
	}
	on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	for name, c := range map[string]struct {
		on    []hook.Reason
		when  func(old, now *object.Object) bool
		edit  string
		calls []string
	}{
		"the change stays":      {on, nil, `{"status":{"sum":"another's"}}`, []string{"[]", "[spec.n: 1 -> 2]", "[spec.n: 1 -> 2]"}},
		"the change taken back": {on, nil, `{"spec":{"n":1},"status":{"sum":"another's"}}`, []string{"[]", "[spec.n: 1 -> 2]", "[spec.n: 2 -> 1]"}},
		"changes only":          {on[1:], grows, `{"status":{"sum":"another's"}}`, []string{"[spec.n: 1 -> 2]", "[spec.n: 1 -> 2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := trigger.Handler{Name: "h", On: c.on, When: c.when, Fields: [][]string{{"spec", "n"}, {"metadata", "labels", "own"}}, Backoff: time.Minute}
				testPartOfDroppedResponse(t, h, c.edit, c.calls)
			})
		})
	}
}

func testPartOfDroppedResponse(t *testing.T, h trigger.Handler, edit string, want []string) {
	s := newBubbleServer(t)
	var refuses atomic.Bool
	s.reject = rejects(http.StatusInternalServerError, func(_, _ string, body map[string]any) bool {
		return refuses.Load() && field(body, "status", "sum") != nil
	})
	p := program(h)
	p.Owns, p.Record.StatusKey = []object.Resource{configMaps}, "test"
	var calls []string
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		calls = append(calls, fmt.Sprint(n.Changes))
		number := text(intIn(object.DecodeOrEmpty(n.Object), "spec", "n"))
		return &hook.HandlerResponse{
			Patch: json.RawMessage(`{"metadata":{"labels":{"own":"` + number + `"}}}`), Status: json.RawMessage(`{"sum":"` + number + `"}`),
			Apply: []hook.AppliedObject{{Object: configMapWith("c", number)}},
		}, nil
	}})
	pass(10 * time.Second)
	refuses.Store(true)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	pass(10 * time.Second)
	if own := field(s.get(rates, "eur"), "metadata", "labels", "own"); own != "2" {
		t.Fatalf("own %v after the calls for %q", own, calls)
	}
	refuses.Store(false)
	s.edit(rates, "eur", edit)
	pass(time.Hour)
	if !slices.Equal(calls, want) {
		t.Errorf("called for %q, want %q", calls, want)
	}
	o := s.get(rates, "eur")
	number := text(field(o, "spec", "n"))
	if own, applied := field(o, "metadata", "labels", "own"), field(s.get(configMaps, "c"), "data", "n"); own != number || applied != number ||
		field(o, "status", "sum") != number {
		t.Errorf("applied %v, stored %s", applied, text(o))
	}
}

// What a timer's response has applied is no drift when the rest of it is dropped for a conflict.
func TestDroppedTimerIsNoDrift(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		var refuses atomic.Bool
		s.reject = rejects(http.StatusInternalServerError, func(_, _ string, body map[string]any) bool {
			return refuses.Load() && field(body, "status", "sum") != nil
		})
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonDrift}, Every: time.Minute, Backoff: time.Minute})
		p.Owns = []object.Resource{configMaps}
		var calls []hook.Reason
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			calls = append(calls, n.Reason)
			number := text(len(calls))
			return &hook.HandlerResponse{Status: json.RawMessage(`{"sum":` + number + `}`), Apply: []hook.AppliedObject{{Object: configMapWith("c", number)}}}, nil
		}})
		pass(10 * time.Second)
		refuses.Store(true)
		pass(61 * time.Second)
		s.edit(rates, "eur", `{"status":{"sum":"another's"}}`)
		refuses.Store(false)
		pass(20 * time.Second)
		if want := []hook.Reason{hook.ReasonCreate, hook.ReasonTimer, hook.ReasonTimer}; !slices.Equal(calls, want) {
			t.Errorf("called for %q, want %q", calls, want)
		}
	})
}

// An edit that is taken back while no process runs is seen, also by a handler that writes spec and status in two requests.
func TestUndoneEditAfterTwoWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec"}, {"status", "sum"}}})
		p.Record.StatusKey = ""
		calls := 0
		start := func() {
			w := startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				calls++
				return &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"m":1}}`), Status: json.RawMessage(`{"sum":"1"}`)}, nil
			}})
			pass(10 * time.Second)
			w.stop()
		}
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		start()
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		s.edit(rates, "eur", `{"spec":{"n":1}}`)
		start()
		if calls != 2 {
			t.Errorf("%d calls, want one for the edit that was taken back", calls)
		}
	})
}

// configMapWith returns a ConfigMap whose data have a number.
func configMapWith(name, number string) json.RawMessage {
	return json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"n":"` + number + `"}}`)
}
