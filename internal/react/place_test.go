package react

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// TestStoriesWithTheRecordInTheStatus: where a record is kept makes no difference to
// what handlers are told, nor to what is written.
func TestStoriesWithTheRecordInTheStatus(t *testing.T) {
	t.Setenv(recordsIn, "status")
	for name, story := range map[string]func(*testing.T){
		"create, update":  TestCreateThenUpdate,
		"restart":         TestRestart,
		"no lost updates": TestNoLostUpdates,
		"failed writes":   TestFailedWritesAreOwed,
		"own cause":       TestNobodyIsTheirOwnCause,
		"deletion":        TestDeletion,
		"release":         TestReleaseOfWhatMatchesNoMore,
		"terminal":        TestTerminal,
		"drift":           TestDrift,
		"nothing new":     TestNothingIsAppliedTwice,
	} {
		t.Run(name, story)
	}
}

// A status and the record are one request.
func TestStatusAndRecordAreOneWrite(t *testing.T) {
	t.Setenv(recordsIn, "status")
	s, e := newServer(t), newEar()
	e.answers("h", func(n *hook.Notice) (*hook.Answer, error) {
		// Who writes a status whole knows nothing of the record, or wants it gone.
		return &hook.Answer{Status: json.RawMessage(`{"told":"` + string(n.Reason) + `","` + StatusRecords + `":null}`)}, nil
	})
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec"}, {"status"}}, Do: e})
	st := e.play(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expect(t, "h create eur")
	if writes := s.wrote("PATCH"); len(writes) != 1 || !strings.HasPrefix(writes[0], "PATCH rates/eur/status") {
		t.Errorf("wrote %q", writes)
	}
	if r := recordIn(s.get(rates, "eur")); r["h"].Seen == "" {
		t.Errorf("recorded %v", r)
	}
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st = e.play(t, s, p)
	st.expect(t, "h update eur")

	// A status that somebody writes without the record gets it again.
	s.edit(rates, "eur", `{"status":{"`+StatusRecords+`":null}}`)
	eventually(t, "recorded again", func() bool { return recordIn(s.get(rates, "eur"))["h"].Seen != "" })
	st.expect(t, "h update eur")
}

// A release that keeps its records in the status goes on from one that did not, and
// takes the annotation away once.
func TestRecordMovesToTheStatus(t *testing.T) {
	s, e := newServer(t), newEar()
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.play(t, s, p)
	st.expect(t, "h create eur")
	st.stop()
	p.StatusRecord = "test"
	st = e.play(t, s, p)
	st.expect(t)
	if n := len(s.wrote("PATCH")); n != 1 {
		t.Errorf("%d writes before there was anything to record: %q", n, s.wrote("PATCH"))
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expect(t, "h update eur spec.n:1->2")
	o := s.get(rates, "eur")
	if len(recordIn(o)) > 0 || field(o, "status", StatusRecords, "test") == nil {
		t.Errorf("left as %s", text(o))
	}
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	st.expect(t, "h update eur spec.n:1->2", "h update eur spec.n:2->3")
	if n := len(s.wrote("PATCH")); n != 4 {
		t.Errorf("%d writes: %q", n, s.wrote("PATCH"))
	}
}

// Where the server does not keep it, for the schema in the cluster is another one
// than the program's, the record goes to the annotation.
func TestRecordThatTheStatusDoesNotKeep(t *testing.T) {
	s, e := newServer(t), newEar()
	s.admit = func(_ string, o map[string]any) {
		if status, is := o["status"].(map[string]any); is {
			delete(status, StatusRecords)
		}
	}
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	p.StatusRecord = "test"
	st := e.play(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expect(t, "h create eur")
	if recordIn(s.get(rates, "eur"))["h"].Seen == "" {
		t.Errorf("left as %s", text(s.get(rates, "eur")))
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expect(t, "h create eur", "h update eur spec.n:1->2")
	if n := len(s.wrote("PATCH rates/eur/status")); n != 1 {
		t.Errorf("%d attempts to keep it in the status", n)
	}
}
