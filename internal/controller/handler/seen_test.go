package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A response that cannot be written yet is written again, without a call: neither what it is to change nor that
// this is missing is an edit. Once an edit calls the handler, only the edit is a change.
func TestRefusedApplyCallsNoHandler(t *testing.T) {
	for name, code := range map[string]int{
		"taken": 0, "invalid": http.StatusUnprocessableEntity, "bad request": http.StatusBadRequest, "internal error": http.StatusInternalServerError,
	} {
		for _, patch := range []string{`{"spec":{"x":2}}`, `{"metadata":{"labels":{"x":"2"}}}`, `{"metadata":{"annotations":{"x":"2"}}}`, ``} {
			t.Run(name+" "+patch, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testRefusedApply(t, code, patch) })
			})
		}
	}
}

func testRefusedApply(t *testing.T, code int, patch string) {
	s := newBubbleServer(t)
	if code == 0 {
		s.create(configMaps, "taken", `{}`)
	}
	s.setReject(func(_, path string, _ map[string]any) int {
		if strings.Contains(path, "/configmaps") {
			return code
		}
		return 0
	})
	var made []string
	p := program(Handler{Name: "h", On: []hook.Reason{onCreate, onUpdate, onDrift}})
	p.Owns = []object.Resource{configMaps}
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	w := startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		line := string(n.Reason)
		for _, c := range n.Changes {
			line += fmt.Sprintf(" %s:%s->%s", c.Path, c.From, c.To)
		}
		made = append(made, line)
		return &hook.HandlerResponse{Patch: patchText(patch), Apply: []hook.AppliedObject{{Object: configMap("taken")}}}, nil
	}})
	defer w.stop()
	pass(time.Hour)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	pass(time.Hour)
	s.setReject(nil)
	s.drop(configMaps, "taken")
	pass(time.Hour)
	if got := strings.Join(made, ", "); got != "Create, Update spec.n:1->2" {
		t.Errorf("calls: %s", got)
	}
	if s.get(configMaps, "taken") == nil {
		t.Error("the write was not repeated")
	}
	if stored := text(s.get(rates, "eur")); patch != "" && !strings.Contains(stored, `"x":`) {
		t.Errorf("stored %s", stored)
	}
}

func configMap(name string) json.RawMessage {
	return json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"b"}}`)
}

func patchText(patch string) json.RawMessage {
	if patch == "" {
		return nil
	}
	return json.RawMessage(patch)
}

// What other controllers make for an object, and what a handler never applied, is not its drift, also after a restart.
func TestDriftIsOfAppliedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		var made []string
		p := program(Handler{Name: "h", On: []hook.Reason{onCreate, onUpdate, onDrift}})
		p.Owns = []object.Resource{configMaps}
		start := func() *bubbleEnv {
			return startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				made = append(made, string(n.Reason))
				return &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: configMap("own")}}}, nil
			}})
		}
		expect := func(step string, want ...string) {
			t.Helper()
			pass(time.Minute)
			if strings.Join(made, " ") != strings.Join(want, " ") {
				t.Errorf("%s: calls %v, want %v", step, made, want)
			}
			made = nil
		}
		w := start()
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		expect("created", "Create")
		owner := `{"metadata":{"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Rate","name":"eur","uid":"uid-1","controller":true}]},"data":{"n":"1"}}`
		s.create(configMaps, "anothers", owner)
		expect("another controller creates")
		s.edit(configMaps, "anothers", `{"data":{"n":"2"}}`)
		expect("another controller changes")
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		s.edit(configMaps, "anothers", `{"data":{"n":"3"}}`)
		expect("edited", "Update")
		s.create(configMaps, "lost", strings.Replace(owner, `"metadata":{`, `"metadata":{"managedFields":[{"manager":"`+p.Manager+`"}],`, 1))
		expect("a create lands whose response is lost", "Drift")
		w.stop()
		s.drop(configMaps, "anothers")
		s.create(configMaps, "more", owner)
		w = start()
		expect("another controller changes while Setpoint is stopped")
		s.edit(configMaps, "own", `{"data":{"a":"user"}}`)
		expect("a user changes", "Drift")
		w.stop()
		s.drop(configMaps, "own")
		w = start()
		expect("a user deletes while Setpoint is stopped", "Drift")
		w.stop()
		w = start()
		expect("started again")
		w.stop()
	})
}

// Nothing is applied of a kind that is not served, because no watch would show it: each run would see what the former
// one applied as deleted. Once the kind is served again, what is missing is applied, and that is no drift.
func TestKindReturnsWithoutDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		p := program(Handler{Name: "h", On: []hook.Reason{onCreate, onUpdate, onDrift}})
		expect := func(step string, served bool, want ...string) {
			t.Helper()
			kind := configMaps
			kind.Unserved = !served
			p.Owns = []object.Resource{kind}
			w := startEnv(s, p, s, map[string]handlerFunc{"h": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				return &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: configMap("own")}}}, nil
			}})
			pass(time.Hour)
			w.stop()
			var calls []string
			for _, c := range w.callsOf("h", "") {
				calls = append(calls, string(c.reason))
			}
			if !slices.Equal(calls, want) {
				t.Errorf("%s: %d calls, want %v", step, len(calls), want)
			}
			if applied := s.get(configMaps, "own") != nil; applied != served {
				t.Errorf("%s: applied: %t", step, applied)
			}
			if events := strings.Join(w.eventLines(), "\n"); strings.Contains(events, "not served") == served || strings.Contains(events, ReasonConflicting) {
				t.Errorf("%s: events:\n%s", step, events)
			}
		}
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		expect("created while the kind is gone", false, "Create")
		expect("the kind is back", true, "Create")
		expect("nothing changes", true)
		s.drop(configMaps, "own")
		expect("the kind is gone again, with what was applied", false, "Drift")
		expect("the kind is back again", true, "Drift")
		expect("nothing changes again", true)
	})
}
