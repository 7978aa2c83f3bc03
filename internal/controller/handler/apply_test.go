package handler

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// Objects are created or applied, also if the watch lags behind or does not cover them.
func TestCreateOrApply(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"reason":"` + string(n.Reason) + `"}}`)},
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"unseen"}}`)},
		}}, nil
	})
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	p.Writes = []WritePermission{{Resource: pods, Apply: true}}
	requests := func() []string {
		var all []string
		for _, write := range s.wrote("") {
			if words := strings.Fields(write); !strings.HasPrefix(words[1], "rates/") {
				all = append(all, words[0]+" "+words[1])
			}
		}
		return all
	}
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	want := []string{"POST configmaps/eur", "PATCH pods/unseen"}
	if got := requests(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h create eur", "h update eur spec.n:1->2")
	want = append(want, "PATCH configmaps/eur", "PATCH pods/unseen")
	if got := requests(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}

	// Another client creates an object of that name while the watch is down: it is not taken
	// over, and the name is used once it is free.
	s.drop(configMaps, "eur")
	eventually(t, "the watch knows that it is gone", func() bool { return st.owned[0].View.Get("town", "eur") == nil })
	s.set(func() {
		s.reject = func(method, path string, _ map[string]any) int {
			if method == "POST" {
				s.reject = nil
				s.put(path, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "eur", "namespace": "town"}})
			}
			return 0
		}
	})
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	const refusal = "eur WriteFailed handler h: apply ConfigMap town/eur: it already exists and has no owner; delete it or use another name"
	eventually(t, "event", func() bool { return slices.Contains(st.eventLines(), refusal) })
	if o := s.get(configMaps, "eur"); strings.Contains(text(o), `"data":`) || strings.Contains(text(o), "ownerReferences") {
		t.Errorf("taken: %s", text(o))
	}
	s.drop(configMaps, "eur")
	eventually(t, "made anew", func() bool {
		o := s.get(configMaps, "eur")
		return o != nil && field(o, "data", "reason") == "Update" && strings.Contains(text(o), "ownerReferences")
	})
}
