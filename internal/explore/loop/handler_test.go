package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var secrets = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}

// copies are handlers that copy Secrets to ConfigMaps. Calls are noted.
func copies(calls *[]string) handler.Program {
	do := hook.HandlerFunc(func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		*calls = append(*calls, string(n.Reason))
		if n.Reason == hook.ReasonDelete {
			return &hook.HandlerResponse{}, nil
		}
		var secret struct{ Data map[string]string }
		if err := json.Unmarshal(n.Object, &secret); err != nil {
			return nil, err
		}
		data, err := json.Marshal(secret.Data)
		copied := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":%s}`, n.Name, data)
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: copied}}}, err
	})
	return handler.Program{
		Name: "copies", Rules: trigger.Rules{Resource: secrets, Finalizer: "copies.example.com/finalizer", Handlers: []trigger.Handler{{
			Name: "copy", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete, hook.ReasonDrift}, Do: do,
		}}, Record: lasthandled.Location{Annotation: "setpoint.dev/handled-by-copies"}}, Owns: []object.Resource{configMaps}, Manager: "copies",
	}
}

const aSecret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default"},"data":{"x":"MQ=="}}`

func newCopies(t *testing.T, calls *[]string) *world {
	t.Helper()
	server := newServer(t, []object.Resource{secrets, configMaps})
	return newWorld(t, server, loop.Programs{Handle: []handler.Program{copies(calls)}}, loop.Options{}, aSecret)
}

// liveCopies goes through the life of a Secret and returns what was stored before its end.
func liveCopies(t *testing.T, w *world) string {
	t.Helper()
	w.settle()
	w.patch(secrets, "a", "", map[string]any{"data": map[string]any{"x": "Mg=="}})
	w.settle()
	at := w.objects(configMaps, "data", "x")
	w.send(apiserver.DeletionOf(secrets, w.state.Get(secrets, "default", "a"), metav1.DeleteOptions{}))
	w.settle()
	return at + ", then " + w.objects(secrets, "metadata") + w.objects(configMaps, "metadata")
}

const copiesLife = `a="Mg==", then `

func TestHandlers(t *testing.T) {
	var calls []string
	w := newCopies(t, &calls)
	if got := liveCopies(t, w); got != copiesLife {
		t.Errorf("got %s\n%s", got, strings.Join(w.trace, "\n"))
	}
	// The first call of each request is made twice.
	if got, want := strings.Join(slices.Compact(calls), " "), "Create Update Delete"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}

func TestHandlersAfterCrashes(t *testing.T) {
	var calls []string
	w := newCopies(t, &calls)
	liveCopies(t, w)
	for n := range len(w.trace) {
		w := newCopies(t, &calls)
		w.crashAfter = n + 1
		if got := liveCopies(t, w); got != copiesLife {
			t.Errorf("a crash after write %d: %s\n%s", n+1, got, strings.Join(w.trace, "\n"))
		}
	}
}

func TestOmissions(t *testing.T) {
	program := copies(new([]string))
	program.Handlers[0].Debounce, program.Handlers[0].Every = 5, time.Hour
	program.Handlers = append(program.Handlers, trigger.Handler{Name: "watch", Daemon: func(context.Context, *hook.HandlerRequest, trigger.Live) error { return nil }})
	p := must.Get(loop.NewProcess(loop.Programs{Handle: []handler.Program{program}}, loop.Options{})).In(t)
	want := []string{"copies: handlers do not know the previous state, as after a restart", "copies: the handler copy does not wait until the object is unchanged for a while", "copies: the handler copy is not called by time", "copies: the daemon watch does not run"}
	if got := p.Omissions(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEventsOfHandlers shows a handler of events the changes that came between two runs.
func TestEventsOfHandlers(t *testing.T) {
	var seen []string
	program := copies(new([]string))
	program.Handlers = []trigger.Handler{{Name: "log", On: []hook.Reason{hook.ReasonEvent}, Do: hook.HandlerFunc(
		func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			seen = append(seen, string(n.Event))
			return &hook.HandlerResponse{}, nil
		},
	)}}
	w := newWorld(t, newServer(t, []object.Resource{secrets, configMaps}), loop.Programs{Handle: []handler.Program{program}}, loop.Options{})
	w.create(aSecret)
	w.settle()
	w.patch(secrets, "a", "", map[string]any{"data": map[string]any{"x": "Mg=="}})
	w.settle()
	w.send(apiserver.DeletionOf(secrets, w.state.Get(secrets, "default", "a"), metav1.DeleteOptions{}))
	w.settle()
	if got, want := strings.Join(slices.Compact(seen), " "), "Added Modified Deleted"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}
