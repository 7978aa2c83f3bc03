package react

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
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// keeping are handlers that want to know what they dealt with: one of a field, one of
// all, and one that does not.
func keeping(do hook.Handler) Program {
	on := []hook.Reason{hook.ReasonUpdate}
	return program(
		Handler{Name: "field", On: on, Fields: [][]string{{"spec", "n"}}, KeepOld: true, Do: do},
		Handler{Name: "whole", On: on, KeepOld: true, Do: do},
		Handler{Name: "without", On: on, Do: do},
	)
}

// revisions are the states that are kept, as JSON.
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

// recorded waits until handlers have an entry that says so, and all is done.
func (s *stage) recorded(t *testing.T, object string, says func(e entry) bool, handlers ...string) {
	t.Helper()
	eventuallyOr(t, func() bool {
		r := recordIn(s.server.get(rates, object))
		return !slices.ContainsFunc(handlers, func(h string) bool { return !says(r[h]) })
	}, func() string {
		return fmt.Sprintf("recorded %+v, told %q, complained %q", recordIn(s.server.get(rates, object)), s.lines(), s.told())
	})
	s.quiet(t)
}

func isKept(e entry) bool { return e.Kept }

func expectKept(t *testing.T, s *server, want ...string) {
	t.Helper()
	eventuallyOr(t, func() bool { return slices.Equal(s.revisions(), want) }, func() string {
		return "kept\n" + strings.Join(s.revisions(), "\n") + "\nwant\n" + strings.Join(want, "\n")
	})
}

// What changed while nobody looked is told with what it was, to those that want to
// know. It takes one revision for each state that is told from others, and no look at
// objects that did not change.
func TestOldIsKept(t *testing.T) {
	s, e := newServer(t), newEar()
	p := keeping(e)
	s.create(rates, "eur", `{"metadata":{"labels":{"l":"1"}},"spec":{"n":1,"x":1},"status":{"s":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st := e.play(t, s, p)
	for _, name := range []string{"eur", "usd"} {
		st.recorded(t, name, isKept, "field", "whole")
	}
	expectKept(t, s, `{"metadata":{"labels":{"l":"1"}},"spec":{"n":1,"x":1}}`, `{"spec":{"n":1}}`, `{"spec":{"n":1}}`)
	if recordIn(s.get(rates, "eur"))["without"].Kept {
		t.Error("kept for a handler that does not want it")
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expect(t, "field update eur spec.n:1->2", "whole update eur spec.n:1->2", "without update eur spec.n:1->2")
	expectKept(t, s, `{"metadata":{"labels":{"l":"1"}},"spec":{"n":2,"x":1}}`, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)

	st.stop()
	s.edit(rates, "eur", `{"metadata":{"labels":{"l":"2"}},"spec":{"n":3}}`)
	olds := map[string]string{}
	for _, name := range []string{"field", "whole"} {
		e.answers(name, func(n *hook.Notice) (*hook.Answer, error) {
			olds[name] = string(n.Old)
			return &hook.Answer{}, nil
		})
	}
	st = e.play(t, s, p)
	st.expect(t, "field update eur spec.n:2->3", `whole update eur metadata.labels.l:"1"->"2" spec.n:2->3`, "without update eur")
	if want := `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town","uid":"uid-1"},"spec":{"n":2}}`; olds["field"] != want {
		t.Errorf("old is\n%s, want\n%s", olds["field"], want)
	}
	if want := `{"l":"1"}`; !strings.Contains(olds["whole"], want) || strings.Contains(olds["whole"], "status") {
		t.Errorf("old is %s", olds["whole"])
	}
	expectKept(t, s, `{"metadata":{"labels":{"l":"2"}},"spec":{"n":3,"x":1}}`, `{"spec":{"n":1}}`, `{"spec":{"n":3}}`)
	s.edit(rates, "eur", `{"spec":{"n":4}}`)
	eventually(t, "told of another", func() bool { return st.heardOf("without update eur spec.n:3->4") })
	if len(s.looks) != 1 || s.looks[0] != "controllerrevisions?setpoint.dev/object-uid=uid-1,setpoint.dev/record=handled-by-test" {
		t.Errorf("looked for %q", s.looks)
	}
}

// Handlers may have dealt with different states.
func TestOldOfEachHandler(t *testing.T) {
	s, e := newServer(t), newEar()
	p := keeping(e)
	p.Handlers[0].Fields = nil // They watch the same.
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.play(t, s, p)
	st.recorded(t, "eur", isKept, "field", "whole")
	expectKept(t, s, `{"spec":{"n":1}}`)
	e.answers("field", func(*hook.Notice) (*hook.Answer, error) {
		return nil, &hook.RetryAfterError{After: time.Hour, Err: errors.New("later")}
	})
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	expectKept(t, s, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
	st.quiet(t)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	e.answers("field", nil)
	st = e.play(t, s, p)
	st.expect(t, "field update eur spec.n:1->3", "whole update eur spec.n:2->3", "without update eur")
	expectKept(t, s, `{"spec":{"n":3}}`)
}

// A process may end between any two of its writes. Nobody sees a wrong old object, and
// what is not needed goes later.
func TestOldAfterACrash(t *testing.T) {
	for name, fails := range map[string]func(method, path string) bool{
		"before the record": func(method, path string) bool { return strings.Contains(path, "/rates/") },
		"after the record":  func(method, _ string) bool { return method == http.MethodDelete },
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newEar()
			on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
			p := program(Handler{Name: "h", On: on, KeepOld: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.play(t, s, p)
			st.expect(t, "h create eur")
			expectKept(t, s, `{"spec":{"n":1}}`)
			s.set(func() {
				s.refuse = func(method, path string, _ map[string]any) int {
					if fails(method, path) {
						return http.StatusInternalServerError
					}
					return 0
				}
			})
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			expectKept(t, s, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
			eventually(t, "tried", func() bool { return len(s.wrote("")) >= 5 })
			st.stop()
			dealtWith := map[string]string{"before the record": "1", "after the record": "2"}[name]

			s.set(func() { s.refuse = nil })
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st = e.play(t, s, p)
			st.expect(t, "h update eur spec.n:"+dealtWith+"->3")
			expectKept(t, s, `{"spec":{"n":3}}`)
		})
	}
}

// A revision that was made for a record that was never written is used by who writes
// it, unless somebody spoilt it.
func TestRevisionIsMet(t *testing.T) {
	for name, spoil := range map[string]string{
		"sound":            `{}`,
		"another's label":  `{"metadata":{"labels":{"setpoint.dev/object-uid":"uid-9"}}}`,
		"other data":       `{"data":{"object":{"spec":{"n":7}}}}`,
		"data of no shape": `{"data":{"object":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newEar()
			p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepOld: true, Do: e})
			o := parse(t, text(s.create(rates, "eur", `{"spec":{"n":1}}`)))
			part := tree([]byte(`{"spec":{"n":1}}`))
			left, err := p.revisionOf(o, digest(part), part, 1)
			if err != nil {
				t.Fatal(err)
			}
			s.create(plan.ControllerRevisions, left.Name(), text(merged(tree(left.JSON()), tree([]byte(spoil)))))
			st := e.play(t, s, p)
			st.recorded(t, "eur", isKept, "h")
			expectKept(t, s, `{"spec":{"n":1}}`)
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			st = e.play(t, s, p)
			st.expect(t, "h update eur spec.n:1->2")
		})
	}
}

// A revision that somebody deletes or spoils is as if it had never been kept, which is
// told, and nothing breaks.
func TestOldIsLost(t *testing.T) {
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
			s, e := newServer(t), newEar()
			p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, KeepOld: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.play(t, s, p)
			st.recorded(t, "eur", isKept, "h")
			st.stop()
			lose(s, p.revisionName("uid-1", recordIn(s.get(rates, "eur"))["h"].Seen))
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			st = e.play(t, s, p)
			st.expect(t, "h update eur")
			if told := st.told(); len(told) != 1 || !strings.HasPrefix(told[0], "eur OldLost what handler h has dealt with is not known: ") {
				t.Errorf("told %q", told)
			}
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st.expect(t, "h update eur", "h update eur spec.n:2->3")
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":4}}`)
			st = e.play(t, s, p)
			st.expect(t, "h update eur spec.n:3->4")
			if told := st.told(); len(told) > 0 {
				t.Errorf("told %q", told)
			}
		})
	}
}

// Who begins to want it has what was dealt with before kept, as far as it is known.
func TestOldIsKeptFromNowOn(t *testing.T) {
	s, e := newServer(t), newEar()
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st := e.play(t, s, p)
	for _, name := range []string{"eur", "usd"} {
		st.recorded(t, name, func(e entry) bool { return e.Seen != "" }, "h")
	}
	st.stop()
	s.edit(rates, "usd", `{"spec":{"n":2}}`)
	p.Handlers[0].KeepOld = true
	st = e.play(t, s, p)
	st.recorded(t, "eur", isKept, "h")
	st.expect(t, "h update usd")
	expectKept(t, s, `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
	if told := st.told(); len(told) > 0 {
		t.Errorf("told %q", told)
	}
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st = e.play(t, s, p)
	st.expect(t, "h update eur spec.n:1->2")
}

// What a handler writes itself is part of what it has dealt with.
func TestOldHasWhatTheHandlerWrote(t *testing.T) {
	s, e := newServer(t), newEar()
	e.answers("h", func(*hook.Notice) (*hook.Answer, error) {
		return &hook.Answer{Patch: json.RawMessage(`{"spec":{"comment":"nice"}}`)}, nil
	})
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepOld: true, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.play(t, s, p)
	st.recorded(t, "eur", isKept, "h")
	expectKept(t, s, `{"spec":{"comment":"nice","n":1}}`)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"comment":"bad"}}`)
	st = e.play(t, s, p)
	st.expect(t, `h update eur spec.comment:"nice"->"bad"`)
}

// Nothing waits for what the server does not take, which is told once; a server that
// does not answer is waited for, and the handler is not called again.
func TestOldIsNotTaken(t *testing.T) {
	const large = 1 << 20
	for name, c := range map[string]struct {
		size, code, times int
		kept              bool
		told              string
	}{
		"900 KB":      {size: 900_000, kept: true},
		"too large":   {size: maxKept, told: "it is larger than 1400000 bytes; have the handler watch fewer fields"},
		"refused":     {code: http.StatusUnprocessableEntity, times: large, told: "refused"},
		"unreachable": {code: http.StatusInternalServerError, times: 1, kept: true, told: "keep what handler h has dealt with"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newEar()
			s.refuse = func(method, _ string, _ map[string]any) int {
				if method != http.MethodPost || c.times == 0 {
					return 0
				}
				c.times--
				return c.code
			}
			p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepOld: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1,"text":"`+strings.Repeat("x", c.size)+`"}}`)
			st := e.play(t, s, p)
			st.recorded(t, "eur", func(e entry) bool { return e.Seen != "" && e.Kept == c.kept }, "h")
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			eventually(t, "told of the update", func() bool { return len(st.lines()) == 2 })
			st.expect(t, "h create eur", "h update eur spec.n:1->2")
			st.recorded(t, "eur", func(e entry) bool { return e.Kept == c.kept }, "h")
			told := st.told()
			if c.told == "" && len(told) > 0 || c.told != "" && (len(told) != 1 || !strings.Contains(told[0], c.told)) {
				t.Errorf("told %q", told)
			}
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st = e.play(t, s, p)
			if c.kept {
				st.expect(t, "h update eur spec.n:2->3")
				return
			}
			st.expect(t, "h update eur")
		})
	}
}

// Who cannot ask for the moment waits with telling; who may not ask goes on without.
func TestOldIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		line, told string
	}{
		"unreachable": {http.StatusInternalServerError, "h update eur spec.n:1->2", "eur ReadFailed list the revisions of Rate town/eur"},
		"forbidden":   {http.StatusForbidden, "h update eur", "eur OldLost what handlers have dealt with is not known: list the revisions"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newEar()
			p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, KeepOld: true, Do: e})
			p.StatusRecord = "test"
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.play(t, s, p)
			expectKept(t, s, `{"spec":{"n":1}}`)
			st.quiet(t)
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			s.set(func() { s.blind = c.code })
			st = e.play(t, s, p)
			eventually(t, "told", func() bool { return len(st.told()) > 0 })
			s.set(func() { s.blind = 0 })
			st.expect(t, c.line)
			if told := st.told(); len(told) != 1 || !strings.HasPrefix(told[0], c.told) {
				t.Errorf("told %q", told)
			}
			if c.code != http.StatusForbidden {
				expectKept(t, s, `{"spec":{"n":2}}`)
			}
		})
	}
}

// In a namespace that is going away nothing can be kept, and need not be.
func TestNothingIsKeptAtTheEnd(t *testing.T) {
	s, e := newServer(t), newEar()
	s.terminating = true
	on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete}
	st := e.play(t, s, program(Handler{Name: "h", On: on, KeepOld: true, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.recorded(t, "eur", func(e entry) bool { return e.Seen != "" }, "h")
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
	if told := st.told(); len(told)+len(s.revisions()) > 0 {
		t.Errorf("told %q, kept %q", told, s.revisions())
	}
}

func TestRevisionOf(t *testing.T) {
	o := parse(t, `{"apiVersion":"example.org/v1","kind":"Town","metadata":{"name":"bern","uid":"u"}}`)
	p := Program{
		Resource: object.Resource{Group: "example.org", Version: "v1", Plural: "towns", Kind: "Town"},
		Record:   "setpoint.dev/handled-by-test", Namespace: "setpoint",
	}
	part := map[string]any{"spec": map[string]any{"n": 1}}
	revision, err := p.revisionOf(o, digest(part), part, 3)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"apps/v1","data":{"object":{"spec":{"n":1}}},"kind":"ControllerRevision","metadata":{` +
		`"labels":{"setpoint.dev/object-uid":"u","setpoint.dev/record":"handled-by-test"},` +
		`"name":"towns.example.org-NAME","namespace":"setpoint",` +
		`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Town","name":"bern","uid":"u"}]},"revision":3}`
	name := strings.TrimPrefix(revision.Name(), "towns.example.org-")
	if got := strings.Replace(string(revision.JSON()), name, "NAME", 1); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	other := p
	other.Record = "setpoint.dev/handled-by-other"
	names := []string{revision.Name(), p.revisionName("u", "x"), p.revisionName("v", digest(part)), other.revisionName("u", digest(part))}
	slices.Sort(names)
	if len(slices.Compact(names)) != 4 {
		t.Errorf("not told apart: %q", names)
	}
	if Keepable(object.GroupKind{Kind: "Secret"}) == nil || Keepable(object.GroupKind{Group: "example.org", Kind: "Secret"}) != nil {
		t.Error("the Secrets of the core alone are not to be kept")
	}
}
