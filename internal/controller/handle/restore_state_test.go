package handle

import (
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// A record that somebody removes, or spoils, is written again by who knows what
// was handled. Nobody is called for that, and the way back and forth slows down.
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

	// An edit that takes the record along is an update as any other.
	s.edit(rates, "eur", `{"metadata":{"annotations":null},"spec":{"n":2}}`)
	eventually(t, "recorded once more", recorded)
	st.expectCalls(t, "both create eur", "both update eur spec.n:1->2", "late update eur spec.n:1->2")

	writes := len(s.wrote("PATCH"))
	for range 10 {
		s.edit(rates, "eur", `{"metadata":{"annotations":null}}`)
		eventually(t, "looked", func() bool { return st.Health().Queue.Queued() == 0 })
	}
	if n := len(s.wrote("PATCH")) - writes; n > 1 {
		t.Errorf("%d writes while somebody else removed the record", n)
	}
	eventually(t, "recorded in the end", recorded)
	if received := st.calledLines(); len(received) != 3 {
		t.Errorf("told %q", received)
	}

	// The next process knows the record alone.
	st.stop()
	s.edit(rates, "eur", `{"metadata":{"annotations":null}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "both create eur")
	if !recorded() {
		t.Error("not recorded")
	}
}
