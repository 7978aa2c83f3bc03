package handler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Finalizers of a former controller go with the first write, which adds the own one if it is
// needed; they hold an object that is being deleted for the handlers.
func TestReplacedFinalizers(t *testing.T) {
	onDeletion := Handler{Name: "d", On: []hook.Reason{onDelete}}
	for name, c := range map[string]struct {
		handler  Handler
		deleted  bool
		want     string
		deletion int
		writes   int
	}{
		"needed":                            {onDeletion, false, "[other/one setpoint.dev/test]", 0, 1},
		"not needed":                        {Handler{Name: "e", On: []hook.Reason{hook.ReasonEvent}}, false, "[other/one]", 0, 1},
		"with a record":                     {Handler{Name: "c", On: []hook.Reason{onCreate}}, false, "[other/one]", 0, 1},
		"deleted":                           {onDeletion, true, "[other/one]", 1, 1},
		"deleted, without a Delete handler": {Handler{Name: "c", On: []hook.Reason{onCreate}}, true, "[other/one]", 0, 1},
		"not selected":                      {onDeletion.with(func(h *Handler) { h.Name = "unselected" }), false, "[kopf.dev/kopf other/one]", 0, 0},
		"for other objects":                 {onDeletion.with(func(h *Handler) { h.When = func(_, _ *object.Object) bool { return false } }), false, "[kopf.dev/kopf other/one]", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBubbleServer(t)
				s.create(rates, "eur", `{"metadata":{"finalizers":["kopf.dev/kopf","other/one"]}}`)
				if c.deleted {
					s.drop(rates, "eur")
				}
				p := program(c.handler)
				p.ReplacedFinalizers = []string{"kopf.dev/kopf"}
				if c.handler.Name == "unselected" {
					p.Labels = "a=b"
				}
				w := startEnv(s, p, s, nil)
				defer w.stop()
				pass(time.Minute)
				if got := finalizersOf(s); got != c.want || len(w.callsOf("d", "")) != c.deletion || len(s.wrote("PATCH")) != c.writes {
					t.Errorf("finalizers %s, want %s, after %v and %q", got, c.want, w.callsOf("d", ""), s.wrote("PATCH"))
				}
			})
		})
	}
}

// An object that a former controller has handled is new to handlers of updates; another one is
// taken for granted.
func TestReplacedAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "former", `{"metadata":{"annotations":{"kopf.dev/last":"{}"}},"spec":{"n":1}}`)
		s.create(rates, "other", `{"spec":{"n":1}}`)
		p := program(Handler{Name: "changed", On: []hook.Reason{onUpdate}})
		p.ReplacedAnnotation = "kopf.dev/last"
		w := startEnv(s, p, s, nil)
		defer w.stop()
		pass(time.Second)
		if made := w.callsOf("changed", "former"); len(made) != 1 || made[0].reason != onCreate {
			t.Errorf("calls for the object of a former controller: %+v, want one with the reason Create", made)
		}
		if made := w.callsOf("changed", "other"); len(made) != 0 {
			t.Errorf("calls for another object: %+v, want none", made)
		}
		s.edit(rates, "former", `{"metadata":{"annotations":{"kopf.dev/last":null}}}`)
		s.edit(rates, "other", `{"spec":{"n":2}}`)
		pass(time.Second)
		if made := w.callsOf("changed", "other"); len(made) != 1 || made[0].reason != onUpdate {
			t.Errorf("calls for the other object: %+v, want one with the reason Update", made)
		}
	})
}

// A deletion that takes longer says once what it waits for: the handler that asks for another call, or the daemon.
func TestDeletionSaysWhatItWaitsFor(t *testing.T) {
	slow := func(ctx context.Context, _ *hook.HandlerRequest, _ *Live) error {
		<-ctx.Done()
		elapse(25 * time.Second)
		return nil
	}
	for want, h := range map[string]Handler{
		"eur Finalizing the deletion waits for the answer of the handler h that it is done": {Name: "h", On: []hook.Reason{onDelete}},
		"eur Finalizing the deletion waits until the daemon d has returned":                 {Name: "d", Daemon: slow},
	} {
		t.Run(h.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBubbleServer(t)
				s.create(rates, "eur", `{}`)
				calls := 0
				w := startEnv(s, program(h), s, map[string]handlerFunc{"h": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
					calls++
					if calls > 5 {
						return &hook.HandlerResponse{}, nil
					}
					return &hook.HandlerResponse{RetryAfter: 5 * time.Second}, nil
				}})
				defer w.stop()
				pass(time.Second)
				s.drop(rates, "eur")
				pass(9 * time.Second)
				if early := w.eventLines(); len(early) > 0 {
					t.Errorf("too early: %q", early)
				}
				pass(20 * time.Second)
				if got := w.eventLines(); !slices.Equal(got, []string{want}) {
					t.Errorf("events %q, want %q", got, want)
				}
				pass(time.Minute)
				if s.get(rates, "eur") != nil || len(w.eventLines()) != 1 {
					t.Errorf("not deleted, or events %q", w.eventLines())
				}
			})
		})
	}
}
