package handler

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// A record that another client removes or changes is restored from memory. No handler is
// called for that, and repeated removals slow it down.
func TestStateIsRestored(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(
		Handler{Name: "both", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e},
		Handler{Name: "late", On: []hook.Reason{hook.ReasonUpdate}, Do: e},
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
	if n := len(s.wrote("PATCH")) - writes; n > 1+int(time.Since(since)/firstDelay) {
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
	st := e.start(t, s, program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e}))
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
