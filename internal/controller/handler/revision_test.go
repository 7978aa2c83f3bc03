package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// withPreviousState returns a program with two handlers that keep the previous state, one of a
// field and one of all, and one that does not.
func withPreviousState(do hook.Handler) Program {
	on := []hook.Reason{hook.ReasonUpdate}
	return program(
		trigger.Handler{Name: "field", On: on, Fields: [][]string{{"spec", "n"}}, KeepPreviousState: true, Do: do},
		trigger.Handler{Name: "whole", On: on, KeepPreviousState: true, Do: do},
		trigger.Handler{Name: "without", On: on, Do: do},
	)
}

// revisions returns the stored states as JSON.
func (s *server) revisions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, o := range s.objects {
		if o["kind"] == plan.ControllerRevisions.Kind {
			all = append(all, text(field(o, "data", "object")))
		}
	}
	slices.Sort(all)
	return all
}

// waitForEntries waits until the entries of handlers match, and the controller is idle.
func (s *testEnv) waitForEntries(t *testing.T, object string, says func(e lasthandled.Entry) bool, handlers ...string) {
	t.Helper()
	eventuallyOr(t, func() bool {
		r := stateIn(s.get(rates, object))
		return !slices.ContainsFunc(handlers, func(h string) bool { return !says(r[h]) })
	}, func() string {
		return fmt.Sprintf("recorded %+v, calls %q, events %q", stateIn(s.get(rates, object)), s.calledLines(), s.eventLines())
	})
	s.waitIdle(t)
}

func hasRevision(e lasthandled.Entry) bool { return e.HasRevision }

func expectRevisions(t *testing.T, s *server, want ...string) {
	t.Helper()
	eventuallyOr(t, func() bool { return slices.Equal(s.revisions(), want) }, func() string {
		return "kept\n" + strings.Join(s.revisions(), "\n") + "\nwant\n" + strings.Join(want, "\n")
	})
}

// An update during a restart has the previous state, for handlers that keep it. That takes one
// revision for each distinct state, and no list for unchanged objects.
func TestPreviousStateAfterRestart(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := withPreviousState(e)
	s.create(rates, "eur", `{"metadata":{"labels":{"l":"1"}},"spec":{"n":1,"x":1},"status":{"s":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	for _, name := range []string{"eur", "usd"} {
		st.waitForEntries(t, name, hasRevision, "field", "whole")
	}
	expectRevisions(t, s, `{"metadata":{"labels":{"l":"1"}},"spec":{"n":1,"x":1}}`, `{"spec":{"n":1}}`, `{"spec":{"n":1}}`)
	if stateIn(s.get(rates, "eur"))["without"].HasRevision {
		t.Error("kept for a handler that does not want it")
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "field update eur spec.n:1->2", "whole update eur spec.n:1->2", "without update eur spec.n:1->2")
	expectRevisions(t, s, `{"metadata":{"labels":{"l":"1"}},"spec":{"n":2,"x":1}}`, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)

	st.stop()
	s.edit(rates, "eur", `{"metadata":{"labels":{"l":"2"}},"spec":{"n":3}}`)
	olds := map[string]string{}
	for _, name := range []string{"field", "whole"} {
		e.respond(name, func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			olds[name] = string(n.PreviousState)
			return &hook.HandlerResponse{}, nil
		})
	}
	st = e.start(t, s, p)
	st.expectCalls(t, "field update eur spec.n:2->3", `whole update eur metadata.labels.l:"1"->"2" spec.n:2->3`, "without update eur")
	if want := `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town","uid":"uid-1"},"spec":{"n":2}}`; olds["field"] != want {
		t.Errorf("old is\n%s, want\n%s", olds["field"], want)
	}
	if want := `{"l":"1"}`; !strings.Contains(olds["whole"], want) || strings.Contains(olds["whole"], "status") {
		t.Errorf("old is %s", olds["whole"])
	}
	expectRevisions(t, s, `{"metadata":{"labels":{"l":"2"}},"spec":{"n":3,"x":1}}`, `{"spec":{"n":1}}`, `{"spec":{"n":3}}`)
	s.edit(rates, "eur", `{"spec":{"n":4}}`)
	eventually(t, "called for another update", func() bool { return st.wasCalled("without update eur spec.n:3->4") })
	if len(s.selectorLists) != 1 || s.selectorLists[0] != "controllerrevisions?setpoint.dev/object-uid=uid-1,setpoint.dev/record=handled-by-test" {
		t.Errorf("looked for %q", s.selectorLists)
	}
}

// Handlers may have handled different states.
func TestPreviousStatePerHandler(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := withPreviousState(e)
	p.Handlers[0].Fields = nil // They watch the same.
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.waitForEntries(t, "eur", hasRevision, "field", "whole")
	expectRevisions(t, s, `{"spec":{"n":1}}`)
	e.answer("field", nil, &hook.RetryAfterError{After: time.Hour, Err: errors.New("later")})
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	expectRevisions(t, s, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
	st.waitIdle(t)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	e.respond("field", nil)
	st = e.start(t, s, p)
	st.expectCalls(t, "field update eur spec.n:1->3", "whole update eur spec.n:2->3", "without update eur")
	expectRevisions(t, s, `{"spec":{"n":3}}`)
}

// A process may end between any two of its writes. No handler sees a wrong previous state, and
// unused revisions are deleted later.
func TestPreviousStateAfterCrash(t *testing.T) {
	for name, fails := range map[string]func(method, path string, _ map[string]any) bool{
		"before the record": func(_, path string, _ map[string]any) bool { return strings.Contains(path, "/rates/") },
		"after the record":  func(method, _ string, _ map[string]any) bool { return method == http.MethodDelete },
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
			p := program(trigger.Handler{Name: "h", On: on, KeepPreviousState: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, p)
			st.expectCalls(t, "h create eur")
			expectRevisions(t, s, `{"spec":{"n":1}}`)
			s.setReject(rejects(http.StatusInternalServerError, fails))
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			expectRevisions(t, s, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
			eventually(t, "tried", func() bool { return len(s.wrote("")) >= 5 })
			st.stop()
			dealtWith := map[string]string{"before the record": "1", "after the record": "2"}[name]

			s.setReject(nil)
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st = e.start(t, s, p)
			st.expectCalls(t, "h update eur spec.n:"+dealtWith+"->3")
			expectRevisions(t, s, `{"spec":{"n":3}}`)
		})
	}
}

// A revision of a record that was never written is used again, unless another client changed
// it.
func TestExistingRevision(t *testing.T) {
	for name, spoil := range map[string]string{
		"sound":            `{}`,
		"another's label":  `{"metadata":{"labels":{"setpoint.dev/object-uid":"uid-9"}}}`,
		"other data":       `{"data":{"object":{"spec":{"n":7}}}}`,
		"data of no shape": `{"data":{"object":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
			o := parse(t, text(s.create(rates, "eur", `{"spec":{"n":1}}`)))
			part := object.DecodeOrEmpty([]byte(`{"spec":{"n":1}}`))
			left := must.Get(p.revisionOf(o, lasthandled.Digest(part), part, 1)).In(t)
			s.create(plan.ControllerRevisions, left.Name(), text(object.MergePatch(object.DecodeOrEmpty(left.JSON()), object.DecodeOrEmpty([]byte(spoil)))))
			st := e.start(t, s, p)
			st.waitForEntries(t, "eur", hasRevision, "h")
			expectRevisions(t, s, `{"spec":{"n":1}}`)
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			st = e.start(t, s, p)
			st.expectCalls(t, "h update eur spec.n:1->2")
		})
	}
}

// A deleted or changed revision counts as missing, which is reported, and nothing else fails.
func TestPreviousStateLost(t *testing.T) {
	for name, lose := range map[string]func(s *server, revision string){
		"deleted": func(s *server, revision string) { s.drop(plan.ControllerRevisions, revision) },
		"changed": func(s *server, revision string) {
			s.edit(plan.ControllerRevisions, revision, `{"data":{"object":{"spec":{"n":9}}}}`)
		},
		"not to be found": func(s *server, revision string) {
			s.edit(plan.ControllerRevisions, revision, `{"metadata":{"labels":null}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, p)
			st.waitForEntries(t, "eur", hasRevision, "h")
			st.stop()
			lose(s, p.revisionName("uid-1", stateIn(s.get(rates, "eur"))["h"].Digest))
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			st = e.start(t, s, p)
			st.expectCalls(t, "h update eur")
			if received := st.eventLines(); len(received) != 1 || !strings.HasPrefix(received[0], "eur PreviousStateLost previous state of handler h unknown: ") {
				t.Errorf("got %q", received)
			}
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st.expectCalls(t, "h update eur", "h update eur spec.n:2->3")
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":4}}`)
			st = e.start(t, s, p)
			st.expectCalls(t, "h update eur spec.n:3->4")
			st.expectEvents(t)
		})
	}
}

// A handler that starts to keep its previous state has the earlier state stored, as far as it
// is known.
func TestKeepPreviousStateEnabledLater(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	for _, name := range []string{"eur", "usd"} {
		st.waitForEntries(t, name, func(e lasthandled.Entry) bool { return e.Digest != "" }, "h")
	}
	st.stop()
	s.edit(rates, "usd", `{"spec":{"n":2}}`)
	p.Handlers[0].KeepPreviousState = true
	st = e.start(t, s, p)
	st.waitForEntries(t, "eur", hasRevision, "h")
	st.expectCalls(t, "h update usd")
	expectRevisions(t, s, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
	st.expectEvents(t)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "h update eur spec.n:1->2")
}

// The handled state of a handler includes its own writes.
func TestPreviousStateHasOwnWrites(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"comment":"nice"}}`)}, nil)
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.waitForEntries(t, "eur", hasRevision, "h")
	expectRevisions(t, s, `{"spec":{"comment":"nice","n":1}}`)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"comment":"bad"}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, `h update eur spec.comment:"nice"->"bad"`)
}

// What another handler writes at the creation is an update from the state before it.
func TestPreviousStateBeforeAnotherHandler(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("create", &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"comment":"nice"}}`)}, nil)
	p := program(
		trigger.Handler{Name: "create", On: []hook.Reason{hook.ReasonCreate}, Do: e},
		trigger.Handler{Name: "update", On: []hook.Reason{hook.ReasonUpdate}, KeepPreviousState: true, Do: e},
	)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "create create eur", `update update eur spec.comment:->"nice"`) //nolint:dupword // The handler has the name of its reason.
}

// A rejected revision is reported once and delays nothing; an unreachable server is retried,
// without another call of the handler.
func TestPreviousStateNotStored(t *testing.T) {
	const large = 1 << 20
	for name, c := range map[string]struct {
		size, code, times int
		kept              bool
		event             string
	}{
		"900 KB":      {size: 900_000, kept: true},
		"too large":   {size: maxRevisionBytes, event: "larger than 1400000 bytes; watch fewer fields"},
		"refused":     {code: http.StatusUnprocessableEntity, times: large, event: "refused"},
		"unreachable": {code: http.StatusInternalServerError, times: 1, kept: true, event: "store the previous state of handler h"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			s.reject = func(method, _ string, _ map[string]any) int {
				if method != http.MethodPost || c.times == 0 {
					return 0
				}
				c.times--
				return c.code
			}
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1,"text":"`+strings.Repeat("x", c.size)+`"}}`)
			st := e.start(t, s, p)
			st.waitForEntries(t, "eur", func(e lasthandled.Entry) bool { return e.Digest != "" && e.HasRevision == c.kept }, "h")
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			eventually(t, "called for the update", func() bool { return len(st.calledLines()) == 2 })
			st.expectCalls(t, "h create eur", "h update eur spec.n:1->2")
			st.waitForEntries(t, "eur", func(e lasthandled.Entry) bool { return e.HasRevision == c.kept }, "h")
			received := st.eventLines()
			if c.event == "" && len(received) > 0 || c.event != "" && (len(received) != 1 || !strings.Contains(received[0], c.event)) {
				t.Errorf("got %q", received)
			}
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st = e.start(t, s, p)
			if c.kept {
				st.expectCalls(t, "h update eur spec.n:2->3")
				return
			}
			st.expectCalls(t, "h update eur")
		})
	}
}

// A handler waits while revisions cannot be listed, and is called without them if a list is
// forbidden.
func TestRevisionsUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		code        int
		line, event string
	}{
		"unreachable": {http.StatusInternalServerError, "h update eur spec.n:1->2", "eur ReadFailed list the revisions of Rate town/eur"},
		"forbidden":   {http.StatusForbidden, "h update eur", "eur PreviousStateLost previous state unknown: list the revisions"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
			p.HandledStatusKey = "test"
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, p)
			expectRevisions(t, s, `{"spec":{"n":1}}`)
			st.waitIdle(t)
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			s.set(func() { s.selectorListCode = c.code })
			st = e.start(t, s, p)
			eventually(t, "event", func() bool { return len(st.eventLines()) > 0 })
			s.set(func() { s.selectorListCode = 0 })
			st.expectCalls(t, c.line)
			if received := st.eventLines(); len(received) != 1 || !strings.HasPrefix(received[0], c.event) {
				t.Errorf("got %q", received)
			}
			if c.code != http.StatusForbidden {
				expectRevisions(t, s, `{"spec":{"n":2}}`)
			}
		})
	}
}

// In a terminating namespace no revision is stored, or needed.
func TestNoRevisionOnDeletion(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.terminating = true
	on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete}
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: on, KeepPreviousState: true, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.waitForEntries(t, "eur", func(e lasthandled.Entry) bool { return e.Digest != "" }, "h")
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
	if received := st.eventLines(); len(received)+len(s.revisions()) > 0 {
		t.Errorf("got %q, kept %q", received, s.revisions())
	}
}

func TestRevisionOf(t *testing.T) {
	o := parse(t, `{"apiVersion":"example.org/v1","kind":"Town","metadata":{"name":"bern","uid":"u"}}`)
	p := Program{
		Resource:          object.Resource{Group: "example.org", Version: "v1", Plural: "towns", Kind: "Town"},
		HandledAnnotation: "setpoint.dev/handled-by-test", Namespace: "setpoint",
	}
	part := map[string]any{"spec": map[string]any{"n": 1}}
	revision := must.Get(p.revisionOf(o, lasthandled.Digest(part), part, 3)).In(t)
	const want = `{"apiVersion":"apps/v1","data":{"object":{"spec":{"n":1}}},"kind":"ControllerRevision","metadata":{` +
		`"labels":{"setpoint.dev/object-uid":"u","setpoint.dev/record":"handled-by-test"},` +
		`"name":"towns.example.org-NAME","namespace":"setpoint",` +
		`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Town","name":"bern","uid":"u"}]},"revision":3}`
	name := strings.TrimPrefix(revision.Name(), "towns.example.org-")
	if got := strings.Replace(string(revision.JSON()), name, "NAME", 1); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	other := p
	other.HandledAnnotation = "setpoint.dev/handled-by-other"
	names := []string{revision.Name(), p.revisionName("u", "x"), p.revisionName("v", lasthandled.Digest(part)), other.revisionName("u", lasthandled.Digest(part))}
	slices.Sort(names)
	if len(slices.Compact(names)) != 4 {
		t.Errorf("not distinct: %q", names)
	}
	if ValidateKeepPreviousState(object.GroupKind{Kind: "Secret"}) == nil || ValidateKeepPreviousState(object.GroupKind{Group: "example.org", Kind: "Secret"}) != nil {
		t.Error("the Secrets of the core alone are not to be kept")
	}
}
