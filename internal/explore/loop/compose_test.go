package loop_test

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
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// mirrors returns a program that makes a ConfigMap for each Secret, with what the ConfigMap "shared" has.
func mirrors(sync hook.Func) composite.Program {
	return composite.Program{
		Name: "mirrors", Parent: secrets, GenerateSelector: true, Manager: "mirrors", LastApplied: "mirrors.example.com/applied",
		Children: plan.Rules{{Resource: configMaps, Method: plan.InPlace}}, Sync: sync,
		Customize: hook.CustomizerFunc(func(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
			return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "configmaps", Namespace: "default", Names: []string{"shared"}}}}, nil
		}),
	}
}

// mirror puts the data of the related ConfigMap into a child, or some if there is none.
func mirror(_ context.Context, r *hook.Request) (*hook.Response, error) {
	data := json.RawMessage(`{"x":"0"}`)
	for _, o := range r.Related[0].Objects {
		var shared struct{ Data json.RawMessage }
		if err := json.Unmarshal(o.Object, &shared); err != nil {
			return nil, err
		}
		data = shared.Data
	}
	child := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mirror"},"data":%s}`, data)
	return &hook.Response{Children: []json.RawMessage{child}}, nil
}

func resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	if apiVersion == "v1" && plural == "configmaps" {
		return configMaps, nil
	}
	return object.Resource{}, errors.New("no such kind")
}

func newMirrors(t *testing.T, sync hook.Func) *world {
	t.Helper()
	server := newServer(t, []object.Resource{secrets, configMaps})
	return newWorld(t, server, loop.Programs{Compose: []composite.Program{mirrors(sync)}}, loop.Options{Resolve: resolve}, aSecret)
}

func TestRelated(t *testing.T) {
	w := newMirrors(t, mirror)
	w.settle()
	w.create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared","namespace":"default"},"data":{"x":"1"}}`)
	w.deliver()
	if len(w.items) != 1 || w.items[0].Causes.String() != "related ConfigMap default/shared changed" {
		t.Fatalf("queued %v", w.items)
	}
	w.settle()
	w.patch(configMaps, "shared", "", map[string]any{"data": map[string]any{"x": "2"}})
	w.settle()
	if got, want := w.objects(configMaps, "data", "x"), `mirror="2" shared="2"`; got != want {
		t.Errorf("got %s, want %s\n%s", got, want, strings.Join(w.trace, "\n"))
	}
}

// TestForeignChangeBeforeOwnWrite delivers the event of another client's change after an own write that came later.
func TestForeignChangeBeforeOwnWrite(t *testing.T) {
	w := newMirrors(t, mirror)
	w.settle()
	w.create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared","namespace":"default"},"data":{"x":"1"}}`)
	w.deliver()
	item := w.items[0]
	w.items = nil
	w.patch(configMaps, "mirror", "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"from": "another-client"}}})
	foreign := w.events
	w.events = nil
	conflicts := 0
	w.ended = func(end *loop.End) {
		if end.Err != nil {
			conflicts++
		}
	}
	w.run(item)
	own := w.events
	w.events, w.items = foreign, nil
	w.deliver()
	if len(w.items) == 0 && conflicts == 0 {
		t.Error("the change of another client queues nothing")
	}
	w.events, w.items = append(w.events, own...), nil
	for len(w.events) > 0 {
		w.deliver()
	}
	if len(w.items) > 0 && conflicts == 0 {
		t.Errorf("the event of an own write queues %v", w.items)
	}
	if len(w.view.Writes()) > 0 {
		t.Errorf("writes whose events have arrived: %v", w.view.Writes())
	}
}

func TestOwnEventsQueueNothing(t *testing.T) {
	w := newMirrors(t, mirror)
	w.run(w.items[0])
	w.items = nil
	for len(w.events) > 0 {
		w.deliver()
	}
	if len(w.items) > 0 || len(w.view.Writes()) > 0 {
		t.Errorf("queued %v, writes %v", w.items, w.view.Writes())
	}
}

func TestMemo(t *testing.T) {
	calls := 0
	w := newMirrors(t, func(ctx context.Context, r *hook.Request) (*hook.Response, error) {
		calls++
		response, err := mirror(ctx, r)
		response.Status = fmt.Appendf(nil, `{"calls":%d,"fixed":1}`, calls)
		return response, err
	})
	w.settle()
	differences := w.process.Memo().Differences()
	if len(differences) == 0 || differences[0].Hook != "mirrors sync" || !slices.Equal(differences[0].Fields, []string{"status.calls"}) {
		t.Errorf("differences %+v", differences)
	}
	before := calls
	w.restart()
	w.settle()
	if calls != before {
		t.Errorf("%d calls for known requests", calls-before)
	}
	stats := w.process.Memo().Stats()
	if len(stats) != 2 || stats[1].Hook != "mirrors sync" || stats[1].Calls != calls || 2*stats[1].Requests != calls {
		t.Errorf("stats %+v, %d calls", stats, calls)
	}
}

// TestHookReadsVersions finds a hook whose response depends on a resource version.
func TestHookReadsVersions(t *testing.T) {
	w := newMirrors(t, func(_ context.Context, r *hook.Request) (*hook.Response, error) {
		version := `""`
		for _, o := range r.Related[0].Objects {
			version = fmt.Sprintf("%q", parse(t, string(o.Object)).ResourceVersion())
		}
		return &hook.Response{Status: fmt.Appendf(nil, `{"version":%s}`, version)}, nil
	})
	w.create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared","namespace":"default"},"data":{"x":"1"}}`)
	w.settle()
	for _, value := range []string{"2", "1"} {
		w.patch(configMaps, "shared", "", map[string]any{"data": map[string]any{"x": value}})
		w.settle()
	}
	if stats := w.process.Memo().Stats(); !stats[1].ReadsVersions {
		t.Errorf("stats %+v", stats)
	}
}

// TestEnd shows how runs end.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		sync     hook.Func
		fails    bool
		panicked bool
		requeue  time.Duration
	}{
		{"an error", func(context.Context, *hook.Request) (*hook.Response, error) { return nil, errors.New("oh") }, true, false, 0},
		{"a panic", func(context.Context, *hook.Request) (*hook.Response, error) { panic("oh") }, true, true, 0},
		{"an invalid child", func(context.Context, *hook.Request) (*hook.Response, error) {
			return &hook.Response{Children: []json.RawMessage{[]byte(`{"kind":"Pod"}`)}}, nil
		}, true, false, 0},
		{"a delay", func(context.Context, *hook.Request) (*hook.Response, error) {
			return &hook.Response{ResyncAfter: time.Minute}, nil
		}, false, false, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newMirrors(t, c.sync)
			step := w.process.Step(t.Context(), loop.Run{Item: w.items[0], View: w.view})
			if step.End == nil {
				t.Fatalf("it requests %s", step.Request)
			}
			end := step.End
			if end.Panicked != c.panicked || end.Requeue.After != c.requeue || (end.Err != nil) != c.fails {
				t.Errorf("panicked %v, requeue %v: %v", end.Panicked, end.Requeue, end.Err)
			}
			if len(step.Calls) != 2 {
				t.Errorf("calls %v", step.Calls)
			}
			if again := w.process.Step(t.Context(), loop.Run{Item: w.items[0], View: w.view}); again.End.Outcome != end.Outcome {
				t.Errorf("first %v, then %v", end.Outcome, again.End.Outcome)
			}
		})
	}
}

func TestRunsAreRepeatable(t *testing.T) {
	w := newMirrors(t, mirror)
	run := loop.Run{Item: w.items[0], View: w.view}
	step := w.process.Step(t.Context(), run)
	run.Exchanges = append(run.Exchanges, loop.Exchange{Request: *step.Request, Response: w.do(step.Request)})
	run.Exchanges[0].Request.Body = []byte("{}")
	if step := w.process.Step(t.Context(), run); step.Err == nil || !strings.Contains(step.Err.Error(), "not repeatable") {
		t.Errorf("a run with another request: %+v", step)
	}
}

func TestContextEnds(t *testing.T) {
	w := newMirrors(t, mirror)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if step := w.process.Step(ctx, loop.Run{Item: w.items[0], View: w.view}); !errors.Is(step.Err, context.Canceled) {
		t.Errorf("%+v", step)
	}
}

// TestDeliveriesEnd shows that the context ends the calls of customize hooks that a delivery makes.
func TestDeliveriesEnd(t *testing.T) {
	hangs := mirrors(mirror)
	hangs.Customize = hook.CustomizerFunc(func(ctx context.Context, _ *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	server := newServer(t, []object.Resource{secrets, configMaps})
	w := newWorld(t, server, loop.Programs{Compose: []composite.Program{hangs}}, loop.Options{Resolve: resolve}, aSecret)
	ctx, end := context.WithCancel(t.Context())
	end()
	event := loop.Event{Resource: configMaps, Object: parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"a","resourceVersion":"1"}}`)}
	if items := w.process.Deliver(ctx, w.view, event); len(items) > 0 {
		t.Errorf("queued %v", items)
	}
	if items := w.process.Observe(ctx, w.view, cache.Write{Object: event.Object, Selection: cache.Selection{Resource: configMaps}}); len(items) > 0 {
		t.Errorf("a write queued %v", items)
	}
}
