package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	s.reject = func(_, _ string, body map[string]any) int {
		if refuses.Load() && field(body, "status", "sum") != nil {
			return http.StatusInternalServerError
		}
		return 0
	}
	p := program(h)
	p.Owns, p.HandledStatusKey = []object.Resource{configMaps}, "test"
	var calls []string
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	w := startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		calls = append(calls, fmt.Sprint(n.Changes))
		number := text(intIn(object.DecodeOrEmpty(n.Object), "spec", "n"))
		return &hook.HandlerResponse{
			Patch: json.RawMessage(`{"metadata":{"labels":{"own":"` + number + `"}}}`), Status: json.RawMessage(`{"sum":"` + number + `"}`),
			Apply: []hook.AppliedObject{{Object: configMapWith("c", number)}},
		}, nil
	}})
	defer w.stop()
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
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		var refuses atomic.Bool
		s.reject = func(_, _ string, body map[string]any) int {
			if refuses.Load() && field(body, "status", "sum") != nil {
				return http.StatusInternalServerError
			}
			return 0
		}
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonDrift}, Every: time.Minute, Backoff: time.Minute})
		p.Owns = []object.Resource{configMaps}
		var calls []hook.Reason
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		w := startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			calls = append(calls, n.Reason)
			number := text(len(calls))
			return &hook.HandlerResponse{Status: json.RawMessage(`{"sum":` + number + `}`), Apply: []hook.AppliedObject{{Object: configMapWith("c", number)}}}, nil
		}})
		defer w.stop()
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
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec"}, {"status", "sum"}}})
		p.HandledStatusKey = ""
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
