package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// accounts are the runs that did something, a line each.
func (s *stage) accounts() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	var all []string
	for i := range s.runs {
		if run := &s.runs[i]; !run.Quiet() {
			all = append(all, line(run))
		}
	}
	return all
}

// line is a run in short: how it ended, how many failed before, and its steps.
func line(run *trace.Run) string {
	words := []string{string(run.Outcome)}
	if run.Attempt > 0 {
		words = append(words, fmt.Sprint("after ", run.Attempt))
	}
	if run.By != "" {
		words = append(words, "("+run.By+")")
	}
	for _, s := range run.Steps {
		switch {
		case s.Ask != nil && s.Ask.Err != nil:
			words = append(words, s.Ask.What+"!"+s.Ask.Err.Error())
		case s.Ask != nil:
			words = append(words, s.Ask.What+"?"+string(s.Ask.Reason))
		case s.Write != nil && s.Write.Err != nil:
			words = append(words, "refused "+string(s.Write.Verb)+" "+s.Write.Ref.String())
		case s.Write != nil:
			words = append(words, strings.TrimSpace(string(s.Write.Verb)+" "+s.Write.Ref.Kind+" "+s.Write.Part))
		case s.Event != nil:
			words = append(words, "told "+s.Event.Reason)
		}
	}
	return strings.Join(words, ", ")
}

// The account of a creation says who was asked what, and what was written; those of a
// failing handler how often it failed and when it comes again; that of a conflict that
// an object had changed.
func TestAccounts(t *testing.T) {
	s, e := newServer(t), newEar()
	e.answers("h", func(*hook.Notice) (*hook.Answer, error) {
		return &hook.Answer{
			Status: json.RawMessage(`{"rate":1}`), Events: []hook.Event{{Type: "Normal", Reason: "Published", Message: "done"}},
			Apply: []hook.Applied{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"rate":"1"}}`)}},
		}, nil
	})
	st := e.play(t, s, program(Handler{
		Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Do: e,
	}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.quiet(t)
	created := "synced, h?create, create ConfigMap, patch Rate status, patch Rate metadata, told Published"
	if st.program.StatusRecord != "" {
		created = "synced, h?create, create ConfigMap, patch Rate status, told Published"
	}
	st.expectAccounts(t, created)
	ask := st.ran(0).Steps[0].Ask
	if string(ask.Question.Notice.Object) == "" || ask.Question.Notice.Reader != nil || len(ask.Answer.Notice.Apply) != 1 {
		t.Errorf("asked %+v", ask)
	}
	if run := st.ran(0); run.Key.Name != "eur" || run.Resource != rates || run.UID == "" || run.Program != "test" || run.Took <= 0 || run.Began.IsZero() {
		t.Errorf("ran %+v", run)
	}

	failed := 0
	e.answers("h", func(*hook.Notice) (*hook.Answer, error) {
		failed++
		if failed <= 2 {
			return nil, errors.New("no money")
		}
		return &hook.Answer{}, nil
	})
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	eventually(t, "three calls", func() bool { return len(st.accounts()) > 3 })
	st.quiet(t)
	last := len(st.accounts()) - 1
	failing := st.ran(1)
	if failing.Err == nil || !strings.Contains(failing.Err.Error(), "no money") || failing.Next.IsZero() {
		t.Errorf("failed with %v, next %v", failing.Err, failing.Next)
	}
	got := st.accounts()[1:]
	if !strings.HasPrefix(got[0], "failed, h!no money") || !strings.HasPrefix(got[1], "failed, after 1, h!no money") || !strings.HasPrefix(got[len(got)-1], "synced, after 2, h?update, patch Rate") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}

	refused := false
	s.refuse = func(method, path string, _ map[string]any) int {
		if method == "PATCH" && strings.HasSuffix(path, "rates/eur") && !refused {
			refused = true
			return 409
		}
		return 0
	}
	e.answers("h", func(*hook.Notice) (*hook.Answer, error) {
		return &hook.Answer{Patch: json.RawMessage(`{"spec":{"comment":"x"}}`)}, nil
	})
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	eventually(t, "written", func() bool { return field(s.get(rates, "eur"), "spec", "comment") == "x" })
	st.quiet(t)
	conflict := st.ran(last + 1)
	if conflict.Outcome != trace.Postponed || !errors.Is(conflict.Err, errMoved) || !strings.Contains(line(&conflict), "refused patch Rate town/eur") {
		t.Errorf("a conflict: %s, %v", line(&conflict), conflict.Err)
	}
}

func (s *stage) expectAccounts(t *testing.T, want ...string) {
	t.Helper()
	if got := s.accounts(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// ran is the i-th run that did something.
func (s *stage) ran(i int) trace.Run {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, run := range s.runs {
		if run.Quiet() {
			continue
		}
		if i == 0 {
			return run
		}
		i--
	}
	return trace.Run{}
}

// What a daemon writes, and what is told of an object that is gone, has an account of
// its own.
func TestAccountsAside(t *testing.T) {
	s, e := newServer(t), newEar()
	st := e.play(t, s, program(Handler{Name: "end", On: []hook.Reason{hook.ReasonDelete}, Optional: true, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.quiet(t)
	s.drop(rates, "eur")
	eventually(t, "told of the end", func() bool { return slices.Contains(st.accounts(), "synced, (it is gone), end?delete") })
}

// A daemon that has nothing new to write has done nothing, and one that was stopped in
// the middle has not failed.
func TestAccountsOfDaemons(t *testing.T) {
	s, e := newServer(t), newEar()
	st := e.play(t, s, program(Handler{Name: "end", On: []hook.Reason{hook.ReasonDelete}, Optional: true, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.quiet(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx   context.Context
		err   error
		steps bool
		want  trace.Outcome
	}{
		{t.Context(), nil, false, trace.Skipped},
		{t.Context(), nil, true, trace.Synced},
		{t.Context(), errors.New("no"), false, trace.Failed},
		{stopped, context.Canceled, false, trace.Postponed},
	} {
		account := st.aside(st.Objects()[0], "a test")
		if c.steps {
			account.Told(hook.Event{})
		}
		st.handInAside(c.ctx, account, c.err)
		st.lock.Lock()
		run := st.runs[len(st.runs)-1]
		st.lock.Unlock()
		if run.Outcome != c.want || run.Quiet() != (c.want == trace.Skipped || c.want == trace.Postponed) {
			t.Errorf("%v, steps %v: %s", c.err, c.steps, run.Outcome)
		}
	}
}

// How an object is doing can be read at any time.
func TestCares(t *testing.T) {
	s, e := newServer(t), newEar()
	e.answers("h", func(n *hook.Notice) (*hook.Answer, error) {
		if n.Name == "bad" {
			return nil, errors.New("no money")
		}
		return &hook.Answer{Apply: []hook.Applied{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + n.Name + `"}}`)}}}, nil
	})
	st := e.play(t, s, program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, MaxBackoff: time.Hour, Do: e}))
	s.create(rates, "good", `{}`)
	s.create(rates, "bad", `{}`)
	s.create(rates, "paused", `{"metadata":{"annotations":{"setpoint.dev/paused":"true"}}}`)
	st.quiet(t)
	said := map[string]string{}
	for _, c := range st.Cares() {
		said[c.Object.Name()] = fmt.Sprintf("failing %t %d %q %s, paused %t, waiting %t, ran %t, next %t, %d owned",
			c.Failing, c.Attempts, c.Error, whatOf(c.Fault), c.Paused, c.Waiting, !c.Ran.IsZero(), !c.Next.IsZero(), c.Children)
	}
	for name, want := range map[string]string{
		"good":   `failing false 0 "" , paused false, waiting false, ran true, next false, 1 owned`,
		"bad":    `failing true 1 "handler h: no money" handler, paused false, waiting false, ran true, next true, 0 owned`,
		"paused": `failing false 0 "" , paused true, waiting false, ran true, next false, 0 owned`,
	} {
		if said[name] != want {
			t.Errorf("%s: %s\nwant %s", name, said[name], want)
		}
	}
	good, is := st.Care(keyOf(st.Objects()[1]))
	if !is || len(st.Family(good.Object)) != 1 {
		t.Errorf("the family of %v is %v", good.Object, st.Family(good.Object))
	}
	st.stop()
	if good, is = st.Care(keyOf(good.Object)); !is || !good.Idle || good.Waiting {
		t.Errorf("of who does not work: %+v", good)
	}
}

// What a write was refused with may quote what was to be written, whoever wrote it: a
// run, or a daemon beside the runs.
func TestCareSaysWhatItsErrorMayQuote(t *testing.T) {
	sign := &hook.Answer{Apply: []hook.Applied{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign"}}`)}}}
	daemon := func(_ context.Context, _ *hook.Notice, live *Live) error {
		_, err := live.Write(sign)
		return err
	}
	for name, h := range map[string]func(*ear) Handler{
		"a run":    func(e *ear) Handler { return Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e} },
		"a daemon": func(*ear) Handler { return Handler{Name: "h", Daemon: daemon, Backoff: time.Hour} },
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newEar()
			e.answers("h", func(*hook.Notice) (*hook.Answer, error) { return sign, nil })
			s.refuse = func(_, path string, _ map[string]any) int {
				if strings.Contains(path, "configmaps") {
					return 403
				}
				return 0
			}
			st := e.play(t, s, program(h(e)))
			s.create(rates, "eur", `{}`)
			var care trace.Care
			eventually(t, "failed", func() bool {
				if all := st.Cares(); len(all) == 1 {
					care = all[0]
				}
				return care.Failing
			})
			if len(care.Among) != 1 || care.Among[0].Resource.Kind != "ConfigMap" || care.Among[0].Namespace != "town" {
				t.Errorf("%q among %v", care.Error, care.Among)
			}
			if last := st.Health().Last; len(last.Among) != 1 {
				t.Errorf("last %+v", last)
			}
		})
	}
}

func whatOf(f *trace.Fault) trace.What {
	if f == nil {
		return ""
	}
	return f.What
}

// Fault U1: the time since which an object fails is that of the first failure in a row.
func TestFailingSince(t *testing.T) {
	var m memory
	fails := func(second int64) { m.show(trouble{failing: true}, LastError{Message: "no"}, time.Unix(second, 0)) }
	fails(1)
	fails(2)
	if m.shown.Attempts != 2 || m.shown.Since != time.Unix(1, 0) {
		t.Errorf("failed %d times since %s", m.shown.Attempts, m.shown.Since)
	}
	m.show(trouble{}, LastError{}, time.Unix(3, 0))
	fails(4)
	if m.shown.Attempts != 1 || m.shown.Since != time.Unix(4, 0) {
		t.Errorf("after a recovery: failed %d times since %s", m.shown.Attempts, m.shown.Since)
	}
}
