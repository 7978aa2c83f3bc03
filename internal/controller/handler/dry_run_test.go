package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// dryRun returns the dry run of a program for a rate, by a process other than the running one.
func (e *fakeHandler) dryRun(t *testing.T, s *server, p Program, of DryRunRequest) DryRunResult {
	t.Helper()
	st := &testEnv{server: s}
	e.lock.Lock()
	e.env = st
	e.lock.Unlock()
	c := New(p, s.tools(st))
	defer c.Close()
	of.Key.Namespace = "town"
	return must.Get(c.DryRun(t.Context(), of)).In(t)
}

// summary returns one line with the calls and the writes.
func (p DryRunResult) summary() string {
	var parts []string
	for _, c := range p.Calls {
		text := c.Handler + " " + strings.ToLower(string(c.Reason))
		for _, change := range c.Changes {
			text += fmt.Sprintf(" %s:%s->%s", change.Path, change.From, change.To)
		}
		for _, w := range c.Writes {
			text += fmt.Sprintf(" %s %s", w.Verb, w.Ref.Name)
		}
		if c.Err != nil {
			text += fmt.Sprintf(" failed %v", c.GaveUp)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// A dry run finds out what the next run does, and writes nothing.
func TestDryRun(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	created := s.create(rates, "eur", `{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"n":1}}`)
	s.create(configMaps, "former", `{"metadata":{"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Rate","name":"eur","uid":"`+
		field(created, "metadata", "uid").(string)+`","controller":true}],"labels":{"age":"old"}}}`)
	p := program(
		trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume}, Debounce: time.Hour, Do: e},
		trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Do: e},
		trigger.Handler{Name: "t", Every: time.Hour, Do: e},
	)
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if !n.DryRun {
			t.Error("the request does not say that it is a dry run")
		}
		return &hook.HandlerResponse{
			Patch: json.RawMessage(`{"spec":{"seen":true}}`), Status: json.RawMessage(`{"ok":true}`),
			Apply:  []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"next"}}`)}},
			Delete: []hook.Deletion{{APIVersion: "v1", Kind: "ConfigMap", Selector: "age=old"}},
		}, nil
	})
	before := len(s.wrote(""))
	got := e.dryRun(t, s, p, DryRunRequest{Key: queue.Key{Name: "eur"}})
	if want := "h create delete former create next"; got.summary() != want {
		t.Errorf("got %q, want %q", got.summary(), want)
	}
	if since := got.Calls[0].Since; since.Format(time.RFC3339) != "2026-01-02T03:04:05Z" {
		t.Errorf("due since %s", since)
	}
	if len(got.Timers) != 1 || got.Timers[0].Handler != "t" || !got.Timers[0].At.After(time.Now()) {
		t.Errorf("timers %+v", got.Timers)
	}
	for path, want := range map[string]string{"spec": `{"n":1,"seen":true}`, "status": `{"ok":true}`} {
		if text := string(got.Object.Field(path)); text != want {
			t.Errorf("%s would be %s, want %s", path, text, want)
		}
	}
	if !got.StateChanged || !slices.Contains(got.Object.Finalizers(), finalizer) || len(got.Stored.Finalizers()) > 0 {
		t.Errorf("recorded %v, finalizers %v", got.StateChanged, got.Object.Finalizers())
	}
	if after := len(s.wrote("")); after != before {
		t.Errorf("%d writes", after-before)
	}
}

// Handled states need no call; changed ones do, with the known previous state; a start alone
// triggers nothing.
func TestDryRunOfHandledState(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	p := program(
		trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume}, Do: e},
		trigger.Handler{Name: "v", On: []hook.Reason{hook.ReasonEvent}, Do: e},
	)
	st := e.start(t, s, p)
	eventually(t, "dealt with", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	st.waitIdle(t)
	st.stop()
	if got := e.dryRun(t, s, p, DryRunRequest{Key: queue.Key{Name: "eur"}}); got.summary() != "" || got.StateChanged {
		t.Errorf("got %q of what is known, recorded %v", got.summary(), got.StateChanged)
	}
	text := must.Get(json.Marshal(s.get(rates, "eur"))).In(t)
	given := must.Get(object.Parse([]byte(strings.Replace(string(text), `"n":1`, `"n":2`, 1)))).In(t)
	of := DryRunRequest{Key: queue.Key{Name: "eur"}, Object: given}
	if got, want := e.dryRun(t, s, p, of).summary(), "h update spec.n:1->2; v event spec.n:1->2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	of.SkipCalls = true
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		t.Error("called")
		return nil, errors.New("called")
	})
	if got, want := e.dryRun(t, s, p, of).summary(), "h update spec.n:1->2; v event spec.n:1->2"; got != want {
		t.Errorf("without calls: got %q, want %q", got, want)
	}
}

// A handler that fails, one that gave up, and one that exceeds its permissions.
func TestDryRunOfFailures(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	p := program(
		trigger.Handler{Name: "a", On: []hook.Reason{hook.ReasonCreate}, Do: e},
		trigger.Handler{Name: "b", On: []hook.Reason{hook.ReasonCreate}, Do: e},
		trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}, Do: e},
	)
	e.answer("a", nil, errors.New("late"))
	e.answer("b", nil, &hook.TerminalError{Err: errors.New("never")})
	e.answer("c", &hook.HandlerResponse{Delete: []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Name: "x"}}}, nil)
	got := e.dryRun(t, s, p, DryRunRequest{Key: queue.Key{Name: "eur"}})
	if want := "a create failed false; b create failed true; c create failed true"; got.summary() != want {
		t.Errorf("got %q, want %q", got.summary(), want)
	}
	st := e.start(t, s, p)
	eventually(t, "given up", func() bool { return stateIn(s.get(rates, "eur"))["c"].Failed })
	st.stop()
	got = e.dryRun(t, s, p, DryRunRequest{Key: queue.Key{Name: "eur"}})
	if want := "a create failed false"; got.summary() != want || !slices.Equal(got.GaveUp, []string{"b", "c"}) {
		t.Errorf("got %q, given up %q", got.summary(), got.GaveUp)
	}
}

const (
	password       = "correct-horse-battery"
	storedPassword = `{"data":{"password":"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"}}`
)

// said is a log that tests read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// secretEnv is a server whose controller's texts are collected.
func secretEnv(t *testing.T) (*server, *fakeHandler, *said) {
	s, log := newServer(t), &said{}
	s.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return s, newFakeHandler(), log
}

// expectMasked waits for a text in the events or the log, where a mask stands for the password.
func (s *testEnv) expectMasked(t *testing.T, log *said, want string) {
	t.Helper()
	eventually(t, want, func() bool { return strings.Contains(text(s.eventLines())+log.String(), want) })
	s.stop()
	s.lock.Lock()
	defer s.lock.Unlock()
	all := text(s.events) + log.String() + conditionsOf(s.get(rates, "eur"))
	for _, run := range s.runs {
		if run.Err != nil {
			all += run.Err.Error()
		}
	}
	if strings.Contains(all, password) || !strings.Contains(all, redact.Mask) {
		t.Errorf("got %s", all)
	}
}

// A response that was not written in its run is written by the next one, which has no call that knows the Secret.
func TestPendingWriteQuotesSecret(t *testing.T) {
	s, e, log := secretEnv(t)
	e.answer("h", &hook.HandlerResponse{Patch: []byte(`{"spec":{"note":"` + password + `"}}`)}, nil)
	uid := meta(s.create(rates, "eur", `{"status":{"conditions":[]}}`))["uid"]
	s.create(object.Secrets, "db", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Rate","name":"eur","uid":%q,`+
		`"controller":true}]},"data":{"password":"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"}}`, uid))
	refused := 0
	s.refusal = `spec.note: Invalid value: "` + password + `"`
	s.reject = func(_, path string, body map[string]any) int {
		if strings.HasSuffix(path, "/status") || field(body, "spec", "note") == nil || refused == 3 {
			return 0
		}
		refused++
		return http.StatusUnprocessableEntity
	}
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Owns = []object.Resource{object.Secrets}
	st := e.start(t, s, p)
	eventually(t, "written", func() bool { return field(s.get(rates, "eur"), "spec", "note") == password })
	st.expectCalls(t, "h create eur")
	st.expectMasked(t, log, "spec.note: Invalid value")
}

// A handler and a daemon that read a Secret quote it.
func TestReadSecretIsQuoted(t *testing.T) {
	for _, reason := range []hook.Reason{hook.ReasonCreate, hook.ReasonDelete, hook.ReasonDaemon} {
		t.Run(string(reason), func(t *testing.T) {
			s, e, log := secretEnv(t)
			login := func(n *hook.HandlerRequest) error {
				group, err := n.Reader.List(t.Context(), "v1", "Secret", "town", "")
				if err != nil || len(group.Objects) != 1 || !strings.Contains(string(group.Objects[0].Object), "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5") {
					t.Errorf("read %+v, %v", group, err)
				}
				return errors.New("no login with " + password)
			}
			e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) { return nil, login(n) })
			h := trigger.Handler{Name: "h", On: []hook.Reason{reason}, Optional: true, Do: e}
			if reason == hook.ReasonDaemon {
				h = trigger.Handler{Name: "h", Daemon: func(_ context.Context, n *hook.HandlerRequest, _ trigger.Live) error { return login(n) }}
			}
			p := program(h)
			p.Reads = []object.Resource{object.Secrets}
			s.create(object.Secrets, "db", storedPassword)
			s.create(rates, "eur", `{"status":{"conditions":[]}}`)
			st := e.start(t, s, p)
			if reason == hook.ReasonDelete {
				st.waitIdle(t)
				s.drop(rates, "eur")
			}
			st.expectMasked(t, log, "no login with "+redact.Mask)
			for _, run := range st.runs { // What else the history keeps of the run is masked by its values.
				if errors.Is(run.Err, context.Canceled) {
					continue // The test ended before its call.
				}
				if run.Err != nil && reason != hook.ReasonDaemon && !run.Values(nil).Found() {
					t.Errorf("the history of %q does not know the Secret", run.Err)
				}
			}
		})
	}
}

// A handler reads a Secret and succeeds: what the history keeps of the run has no value of it.
func TestReadSecretIsInNoHistory(t *testing.T) {
	s, e, _ := secretEnv(t)
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		_, err := n.Reader.List(t.Context(), "v1", "Secret", "town", "")
		return &hook.HandlerResponse{Patch: []byte(`{"metadata":{"annotations":{"copy":"` + password + `"}}}`)}, err
	})
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Reads = []object.Resource{object.Secrets}
	s.create(object.Secrets, "db", storedPassword)
	s.create(rates, "eur", `{}`)
	st := e.start(t, s, p)
	st.waitIdle(t)
	st.stop()
	st.lock.Lock()
	defer st.lock.Unlock()
	for i := range st.runs {
		if values := st.runs[i].Values(nil); st.runs[i].Outcome == record.Synced && values.Text(password) != redact.Mask {
			t.Errorf("the history of a run does not know the Secret: %+v", st.runs[i])
		}
	}
	if len(st.runs) == 0 {
		t.Error("no runs")
	}
}

// A condition that panics quotes a handled Secret; no run of it has begun.
func TestCrashedConditionQuotesSecret(t *testing.T) {
	s, e, log := secretEnv(t)
	p := program(trigger.Handler{Name: "w", On: []hook.Reason{hook.ReasonCreate}, Do: e, When: func(_, _ *object.Object) bool { panic("not for " + password) }})
	p.Resource = object.Secrets
	s.create(object.Secrets, "db", storedPassword)
	st := e.start(t, s, p)
	for _, want := range []string{"condition crashed", "not for " + redact.Mask} {
		eventually(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
	st.expectMasked(t, log, redact.Mask)
}
