package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"nothing":   {`{"spec":{"a":1}}`, `{"spec":{"a":1}}`, ``},
		"value":     {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, `spec.a 1 2`},
		"added":     {`{"spec":{}}`, `{"spec":{"a":{"b":2}}}`, `spec.a  {"b":2}`},
		"removed":   {`{"spec":{"a":[1]}}`, `{"spec":{}}`, `spec.a [1] `},
		"item":      {`{"spec":{"c":[{"n":1,"i":"x"},{"n":2}]}}`, `{"spec":{"c":[{"n":1,"i":"y"}]}}`, `spec.c[0].i "x" "y"; spec.c[1] {"n":2} `},
		"type":      {`{"spec":{"a":1}}`, `{"spec":{"a":"1"}}`, `spec.a 1 "1"`},
		"in order":  {`{"spec":{"b":1,"a":1},"data":{"x":"1"}}`, `{"spec":{"b":2,"a":2},"data":{"x":"2"}}`, `data.x "1" "2"; spec.a 1 2; spec.b 1 2`},
		"status":    {`{"spec":{},"status":{"a":1}}`, `{"spec":{},"status":{"a":2}}`, ``},
		"label":     {`{"metadata":{"labels":{"a.b/c":"1"}}}`, `{"metadata":{"labels":{"a.b/c":"2"}}}`, `metadata.labels["a.b/c"] "1" "2"`},
		"the whole": {`{"spec":{"a":null}}`, `{"spec":{}}`, ``},
	} {
		var h trigger.Handler
		var lines []string
		for _, d := range h.Changes(parse(t, c.old), parse(t, c.new)) {
			lines = append(lines, fmt.Sprintf("%s %s %s", d.Path, d.From, d.To))
		}
		if got := strings.Join(lines, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMergePatches(t *testing.T) {
	encode := func(value any) string {
		data, _ := json.Marshal(value)
		return string(data)
	}
	for name, c := range map[string]struct{ first, second, combined, target, merged string }{
		"members": {`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`, `{"c":3}`, `{"a":1,"b":2,"c":3}`},
		"later":   {`{"a":{"x":1}}`, `{"a":{"y":2}}`, `{"a":{"x":1,"y":2}}`, `{}`, `{"a":{"x":1,"y":2}}`},
		"removal": {`{"a":1}`, `{"a":null}`, `{"a":null}`, `{"a":0,"b":1}`, `{"b":1}`},
		"nulls":   {`{"a":{"x":null}}`, `{"a":{"y":1}}`, `{"a":{"x":null,"y":1}}`, `{"a":{"x":5}}`, `{"a":{"y":1}}`},
		"lists":   {`{"a":[1]}`, `{"a":[2]}`, `{"a":[2]}`, `{"a":{"x":1}}`, `{"a":[2]}`},
	} {
		both := object.CombinePatches(object.DecodeOrEmpty([]byte(c.first)), object.DecodeOrEmpty([]byte(c.second)))
		if got := encode(both); got != c.combined {
			t.Errorf("%s: combined %s, want %s", name, got, c.combined)
		}
		if got := encode(object.MergePatch(object.DecodeOrEmpty([]byte(c.target)), both)); got != c.merged {
			t.Errorf("%s: merged %s, want %s", name, got, c.merged)
		}
	}
}

// The location of a record changes neither the calls nor the other writes.
func TestStateInStatus(t *testing.T) {
	t.Setenv(stateLocationVariable, "status")
	for name, story := range map[string]func(*testing.T){
		"create, update":  TestCreateThenUpdate,
		"restart":         TestRestart,
		"no lost updates": TestNoLostUpdates,
		"failed writes":   TestFailedWritesAreRetried,
		"own cause":       TestOwnWritesDoNotTrigger,
		"deletion":        TestDeletion,
		"release":         TestFinalizerOfUnselectedObject,
		"terminal":        TestTerminal,
		"drift":           TestDrift,
		"nothing new":     TestUnchangedObjectsAreNotApplied,
	} {
		t.Run(name, story)
	}
}

// A status and the record are written in one request.
func TestStatusAndStateInOneWrite(t *testing.T) {
	t.Setenv(stateLocationVariable, "status")
	s, e := newServer(t), newFakeHandler()
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		// A handler that replaces the status may remove the record.
		return &hook.HandlerResponse{Status: json.RawMessage(`{"told":"` + string(n.Reason) + `","` + lasthandled.StatusField + `":null}`)}, nil
	})
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec"}, {"status"}}, Do: e})
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	if writes := s.wrote("PATCH"); len(writes) != 1 || !strings.HasPrefix(writes[0], "PATCH rates/eur/status") {
		t.Errorf("wrote %q", writes)
	}
	if r := stateIn(s.get(rates, "eur")); r["h"].Digest == "" {
		t.Errorf("recorded %v", r)
	}
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "h update eur")

	// Another client writes the status without the record, which is restored.
	s.edit(rates, "eur", `{"status":{"`+lasthandled.StatusField+`":null}}`)
	eventually(t, "recorded again", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	st.expectCalls(t, "h update eur")
}

// A release that stores records in the status continues from the annotation of an earlier one,
// and removes the annotation once.
func TestStateMovesToStatus(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "h create eur")
	st.stop()
	p.Record.StatusKey = "test"
	st = e.start(t, s, p)
	st.expectCalls(t)
	s.expectWrites("PATCH", 1)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h update eur spec.n:1->2")
	o := s.get(rates, "eur")
	if len(stateIn(o)) > 0 || field(o, "status", lasthandled.StatusField, "test") == nil {
		t.Errorf("left as %s", text(o))
	}
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	st.expectCalls(t, "h update eur spec.n:1->2", "h update eur spec.n:2->3")
	s.expectWrites("PATCH", 4)
}

// If the server prunes the record, because the schema in the cluster is another one than the
// program's, the record moves to the annotation.
func TestStatusPrunesState(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.admit = func(_ string, o map[string]any) {
		if status, is := o["status"].(map[string]any); is {
			delete(status, lasthandled.StatusField)
		}
	}
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	p.Record.StatusKey = "test"
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	if stateIn(s.get(rates, "eur"))["h"].Digest == "" {
		t.Errorf("left as %s", text(s.get(rates, "eur")))
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h create eur", "h update eur spec.n:1->2")
	s.expectWrites("PATCH rates/eur/status", 1)
}

// A program with the handlers of a former one continues from its record, and removes it with the
// first write of its own.
func TestPreviousRecords(t *testing.T) {
	for _, location := range []string{"annotation", "status"} {
		t.Run(location, func(t *testing.T) {
			t.Setenv(stateLocationVariable, location)
			s, e := newServer(t), newFakeHandler()
			on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
			former := program(trigger.Handler{Name: "b", On: on, Do: e})
			former.Name, former.Record.Annotation = "former", "setpoint.dev/handled-by-former"
			record := lasthandled.Location{Annotation: former.Record.Annotation}
			if former.Record.StatusKey != "" {
				former.Record.StatusKey, record.StatusKey = "former", "former"
			}
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, former)
			st.expectCalls(t, "b create eur")
			st.stop()

			p := program(trigger.Handler{Name: "a", On: on, Do: e}, trigger.Handler{Name: "b", On: on, Do: e})
			p.PreviousRecords = []lasthandled.Location{record}
			st = e.start(t, s, p)
			st.expectCalls(t, "a create eur")
			o := s.get(rates, "eur")
			if state := stateIn(o); state["a"].Digest == "" || state["b"].Digest == "" || strings.Contains(text(o), "former") {
				t.Errorf("left as %s", text(o))
			}
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			st.expectCalls(t, "a create eur", "a update eur spec.n:1->2", "b update eur spec.n:1->2")
		})
	}
}

// A field of the status that the schema does not have is reported once, and stored once the schema has it, without
// another call of the handler: at the latest ten minutes later, or when a user asks.
func TestPrunedStatusIsWrittenAgain(t *testing.T) {
	for name, asks := range map[string]bool{"later": false, "a user asks": true} {
		runInBubble(t, name, func(t *testing.T, s *server) { testPrunedStatus(t, s, asks) })
	}
}

func testPrunedStatus(t *testing.T, s *server, asks bool) {
	s.admit = func(_ string, o map[string]any) {
		if status, is := o["status"].(map[string]any); is {
			delete(status, "late")
		}
	}
	w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}}), s, map[string]handlerFunc{
		"h": answers(&hook.HandlerResponse{Status: []byte(`{"ready":true,"late":1}`)}, nil),
	})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	pass(time.Hour)
	if events := strings.Join(w.eventLines(), "\n"); strings.Count(events, controller.ReasonStatusPruned) != 1 || !strings.Contains(events, "status.late") {
		t.Errorf("events %q", events)
	}
	if writes := len(s.wrote("PATCH")); writes > 10 {
		t.Errorf("%d writes in an hour", writes)
	}
	s.set(func() { s.admit = nil })
	if asks {
		s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/reconcile-at":"now"}}}`)
		pass(time.Second)
	} else {
		pass(controller.PrunedRetry)
	}
	if status := text(s.get(rates, "eur")["status"]); !strings.Contains(status, `"late":1`) || len(w.callsOf("h", "")) != 1 {
		t.Errorf("left %s after %d calls", status, len(w.callsOf("h", "")))
	}
	writes := len(s.wrote(""))
	pass(time.Hour)
	if more := len(s.wrote("")) - writes; more > 0 {
		t.Errorf("%d more writes", more)
	}
}

// A record that another client removes or changes is restored from memory. No handler is
// called for that, and repeated removals slow it down.
func TestStateIsRestored(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(
		trigger.Handler{Name: "both", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e},
		trigger.Handler{Name: "late", On: []hook.Reason{hook.ReasonUpdate}, Do: e},
	)
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	recorded := func() bool {
		r := stateIn(s.get(rates, "eur"))
		return r["both"].Digest != "" && r["both"] == r["late"]
	}
	eventually(t, "recorded", recorded)
	s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/handled-by-test":"{{"}}}`)
	eventually(t, "recorded again", recorded)
	st.expectCalls(t, "both create eur")

	// An edit that also removes the record is a normal update.
	s.edit(rates, "eur", `{"metadata":{"annotations":null},"spec":{"n":2}}`)
	eventually(t, "recorded once more", recorded)
	st.expectCalls(t, "both create eur", "both update eur spec.n:1->2", "late update eur spec.n:1->2")

	writes, since := len(s.wrote("PATCH")), time.Now()
	for range 10 {
		s.edit(rates, "eur", `{"metadata":{"annotations":null}}`)
		eventually(t, "looked", func() bool { return st.Health().Queue.Queued() == 0 })
	}
	// The delays are longer than firstDelay each.
	if n := len(s.wrote("PATCH")) - writes; n > 1+int(time.Since(since)/trigger.FirstDelay) {
		t.Errorf("%d writes while another client removed the record", n)
	}
	eventually(t, "recorded in the end", recorded)
	if received := st.calledLines(); len(received) != 3 {
		t.Errorf("got %q", received)
	}

	// The next process knows only the record.
	st.stop()
	s.edit(rates, "eur", `{"metadata":{"annotations":null}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "both create eur")
	if !recorded() {
		t.Error("not recorded")
	}
}

// The record of an object in deletion that Setpoint does not hold is left as it is.
func TestStateOfReleasedObjectIsNotRestored(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e}))
	s.create(rates, "eur", `{"metadata":{"finalizers":["example.org/held"]},"spec":{"n":1}}`)
	eventually(t, "recorded", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	s.drop(rates, "eur")
	st.waitIdle(t)
	writes := len(s.wrote("PATCH"))
	s.edit(rates, "eur", `{"metadata":{"annotations":null}}`)
	st.waitIdle(t)
	if n := len(s.wrote("PATCH")) - writes; n > 0 {
		t.Errorf("%d writes", n)
	}
}

// A response that cannot be written yet is written again, without a call: neither what it is to change nor that
// this is missing is an edit. Once an edit calls the handler, only the edit is a change.
func TestRefusedApplyCallsNoHandler(t *testing.T) {
	for name, code := range map[string]int{
		"taken": 0, "invalid": http.StatusUnprocessableEntity, "bad request": http.StatusBadRequest, "internal error": http.StatusInternalServerError,
	} {
		for _, patch := range []string{`{"spec":{"x":2}}`, `{"metadata":{"labels":{"x":"2"}}}`, `{"metadata":{"annotations":{"x":"2"}}}`, ``} {
			runInBubble(t, name+" "+patch, func(t *testing.T, s *server) { testRefusedApply(t, s, code, patch) })
		}
	}
}

func testRefusedApply(t *testing.T, s *server, code int, patch string) {
	if code == 0 {
		s.create(configMaps, "taken", `{}`)
	}
	s.setReject(rejects(code, func(_, path string, _ map[string]any) bool {
		return strings.Contains(path, "/configmaps")
	}))
	var made []string
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}})
	p.Owns = []object.Resource{configMaps}
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		line := string(n.Reason)
		for _, c := range n.Changes {
			line += fmt.Sprintf(" %s:%s->%s", c.Path, c.From, c.To)
		}
		made = append(made, line)
		return &hook.HandlerResponse{Patch: patchText(patch), Apply: []hook.AppliedObject{{Object: configMap("taken")}}}, nil
	}})
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
	inBubble(t, func(t *testing.T, s *server) {
		var made []string
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}})
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

// Fault R11: of an object that only another handler has handled, nothing is known to be applied: that is not all that it owns.
func TestDriftAfterFailedCreate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		p := program(trigger.Handler{Name: "other", On: []hook.Reason{hook.ReasonCreate}}, trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonDrift}, Backoff: time.Hour})
		p.Owns = []object.Resource{configMaps}
		var made []string
		start := func(err error) *bubbleEnv {
			return startEnv(s, p, s, map[string]handlerFunc{
				"other": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) { return nil, nil },
				"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
					made = append(made, string(n.Reason))
					return &hook.HandlerResponse{}, err
				},
			})
		}
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		s.create(configMaps, "anothers", `{"metadata":{"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Rate","name":"eur","uid":"uid-1","controller":true}]}}`)
		w := start(errors.New("not today"))
		pass(time.Minute)
		w.stop()
		start(nil)
		pass(time.Minute)
		s.edit(configMaps, "anothers", `{"data":{"n":"2"}}`)
		pass(time.Minute)
		if !slices.Equal(made, []string{"Create", "Create"}) {
			t.Errorf("called for %q, want Create twice", made)
		}
	})
}

// Nothing is applied of a kind that is not served, because no watch would show it: each run would see what the former
// one applied as deleted. Once the kind is served again, what is missing is applied, and that is no drift.
func TestKindReturnsWithoutDrift(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}})
		expect := func(step string, served bool, want ...string) {
			t.Helper()
			kind := configMaps
			kind.Unserved = !served
			p.Owns = []object.Resource{kind}
			response := &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: configMap("own")}}}
			w := startEnv(s, p, s, map[string]handlerFunc{"h": answers(response, nil)})
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
			if events := strings.Join(w.eventLines(), "\n"); strings.Contains(events, "not served") == served || strings.Contains(events, trigger.ReasonConflicting) {
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
