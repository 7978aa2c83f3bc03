package handler

import (
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

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
			p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: c.fields, Do: e})
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
			e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
				return &hook.HandlerResponse{Patch: []byte(`{"spec":{"seen":true}}`), Status: []byte(`{"seen":true}`)}, nil
			})
			p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
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
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "h create eur")
	st.stop()
	state := stateIn(s.get(rates, "eur"))
	former := state["h"]
	former.edition = edition{}
	state["h"] = former
	s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/handled-by-test":`+string(toJSON(state.String()))+`}}}`)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	s.edit(rates, "eur", `{"spec":{"n":1}}`)
	st = e.start(t, s, p)
	st.expectCalls(t)
}
