package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

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
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{Patch: []byte(`{"spec":{"note":"` + password + `"}}`)}, nil
	})
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
