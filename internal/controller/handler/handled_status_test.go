package handler

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

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
		return &hook.HandlerResponse{Status: json.RawMessage(`{"told":"` + string(n.Reason) + `","` + HandledStatusField + `":null}`)}, nil
	})
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec"}, {"status"}}, Do: e})
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
	s.edit(rates, "eur", `{"status":{"`+HandledStatusField+`":null}}`)
	eventually(t, "recorded again", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	st.expectCalls(t, "h update eur")
}

// A release that stores records in the status continues from the annotation of an earlier one,
// and removes the annotation once.
func TestStateMovesToStatus(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "h create eur")
	st.stop()
	p.HandledStatusKey = "test"
	st = e.start(t, s, p)
	st.expectCalls(t)
	if n := len(s.wrote("PATCH")); n != 1 {
		t.Errorf("%d writes before there was anything to record: %q", n, s.wrote("PATCH"))
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h update eur spec.n:1->2")
	o := s.get(rates, "eur")
	if len(stateIn(o)) > 0 || field(o, "status", HandledStatusField, "test") == nil {
		t.Errorf("left as %s", text(o))
	}
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	st.expectCalls(t, "h update eur spec.n:1->2", "h update eur spec.n:2->3")
	if n := len(s.wrote("PATCH")); n != 4 {
		t.Errorf("%d writes: %q", n, s.wrote("PATCH"))
	}
}

// If the server prunes the record, because the schema in the cluster is another one than the
// program's, the record moves to the annotation.
func TestStatusPrunesState(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.admit = func(_ string, o map[string]any) {
		if status, is := o["status"].(map[string]any); is {
			delete(status, HandledStatusField)
		}
	}
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	p.HandledStatusKey = "test"
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	if stateIn(s.get(rates, "eur"))["h"].Digest == "" {
		t.Errorf("left as %s", text(s.get(rates, "eur")))
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h create eur", "h update eur spec.n:1->2")
	if n := len(s.wrote("PATCH rates/eur/status")); n != 1 {
		t.Errorf("%d attempts to keep it in the status", n)
	}
}

// A program with the handlers of a former one continues from its record, and removes it with the
// first write of its own.
func TestFormerRecords(t *testing.T) {
	for _, location := range []string{"annotation", "status"} {
		t.Run(location, func(t *testing.T) {
			t.Setenv(stateLocationVariable, location)
			s, e := newServer(t), newFakeHandler()
			on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
			former := program(Handler{Name: "b", On: on, Do: e})
			former.Name, former.HandledAnnotation = "former", "setpoint.dev/handled-by-former"
			record := FormerRecord{Annotation: former.HandledAnnotation}
			if former.HandledStatusKey != "" {
				former.HandledStatusKey, record.StatusKey = "former", "former"
			}
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, former)
			st.expectCalls(t, "b create eur")
			st.stop()

			p := program(Handler{Name: "a", On: on, Do: e}, Handler{Name: "b", On: on, Do: e})
			p.FormerRecords = []FormerRecord{record}
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
