package composite

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// statusHook collects the status in each request. It returns err if it is set, else a response.
type statusHook struct {
	err     error
	calls   int
	seen    []string
	respond func(call int, request *hook.Request) *hook.Response
}

func (b *statusHook) Call(_ context.Context, request *hook.Request) (*hook.Response, error) {
	b.calls++
	b.seen = append(b.seen, string(statusIn(request)))
	if b.err != nil {
		return nil, b.err
	}
	return b.respond(b.calls, request), nil
}

func statusIn(request *hook.Request) json.RawMessage {
	var parent struct{ Status json.RawMessage }
	_ = json.Unmarshal(request.Parent, &parent)
	return parent.Status
}

// says makes a hook return the same response each time.
func says(response hook.Response) func(int, *hook.Request) *hook.Response {
	return func(int, *hook.Request) *hook.Response {
		again := response
		return &again
	}
}

// makes is a hook that desires children.
func makes(children ...json.RawMessage) hook.Hook {
	return &statusHook{respond: says(hook.Response{Children: children})}
}

var sign = json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign"},"data":{"a":"b"}}`)

// Fault M12: the second call of a run had a status that was never stored.
func TestHooksGetTheStoredStatus(t *testing.T) {
	for name, c := range map[string]struct {
		parent   object.Resource
		mark     plan.Mark
		calls    int
		children []json.RawMessage
	}{
		"decorator of a built-in kind":                 {stalls, plan.Mark{Key: "d", Value: "d"}, 1, nil},
		"decorator of a kind whose schema prunes":      {customStalls, plan.Mark{Key: "d", Value: "d"}, 1, nil},
		"composite of a kind whose schema prunes":      {customStalls, plan.Mark{}, 1, nil},
		"composite that makes a child in its first go": {customStalls, plan.Mark{}, 2, []json.RawMessage{sign}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1},"spec":{},"status":{"phase":"Active"}}`)
			s.prune = func(status map[string]any) {
				clear(status)
				status["phase"] = "Active"
			}
			b := &statusHook{respond: says(hook.Response{Status: json.RawMessage(`{"ready":"1"}`), Children: c.children})}
			shops := shopsOf(t, s, Program{Sync: b, Parent: c.parent, Mark: c.mark, SyncOnStatusChange: true})
			shops.run(queue.Start)
			if b.calls != c.calls {
				t.Errorf("%d calls at first, want %d", b.calls, c.calls)
			}
			s.wrote()
			shops.run(queue.Resync)
			if b.calls != c.calls+1 {
				t.Errorf("%d calls at a resync, want one", b.calls-c.calls)
			}
			for _, status := range b.seen {
				if status != `{"phase":"Active"}` {
					t.Errorf("shown %s, which was never stored", status)
				}
			}
			s.expectWrites(t, "")
		})
	}
}

// A hook that depends on its own status or labels is called after each change of them.
func TestHooksSeeTheStatusTheySet(t *testing.T) {
	s := newCluster(t, newShop)
	yes := "yes"
	b := &statusHook{respond: func(_ int, request *hook.Request) *hook.Response {
		var parent struct{ Status struct{ Step int } }
		_ = json.Unmarshal(request.Parent, &parent)
		status, _ := json.Marshal(map[string]int{"step": min(parent.Status.Step+1, 3)})
		return &hook.Response{Status: status, Labels: map[string]*string{"open": &yes}, Children: []json.RawMessage{sign}}
	}}
	shops := shopsOf(t, s, Program{Sync: b, Mark: plan.Mark{Key: "d", Value: "d"}, SyncOnStatusChange: true})
	if ran := shops.run(queue.Start); ran.Outcome != record.Synced {
		t.Fatalf("%s: %v", ran.Outcome, ran.Err)
	}
	if shown := strings.Join(b.seen, " "); shown != `  {"step":1} {"step":2} {"step":3}` {
		t.Errorf("shown %q", shown)
	}
	const want = "POST configmaps/sign, PUT shops/a, PUT shops/a/status, PUT shops/a/status, PUT shops/a/status"
	s.expectWrites(t, want)
}

// The status of a parent that converges in one run is written once.
func TestOneStatusWriteForEachParent(t *testing.T) {
	s := newCluster(t, newShop)
	b := &statusHook{respond: func(_ int, request *hook.Request) *hook.Response {
		status, _ := json.Marshal(map[string]int{"signs": len(request.Children[0].Objects)})
		return &hook.Response{Status: status, Children: []json.RawMessage{sign}}
	}}
	shops := shopsOf(t, s, Program{Sync: b})
	shops.run(queue.Start)
	if wrote := s.wrote(); wrote != "POST configmaps/sign, PUT shops/a/status" || b.calls != 2 {
		t.Errorf("%d calls, wrote %s", b.calls, wrote)
	}
	if status := s.stored("shops/a", "status"); status != `{"observedGeneration":1,"signs":1}` {
		t.Error(status)
	}
}

// Fault M2: a decorator's empty status was not stored on an object without status, and the hook was
// not called again.
func TestDecoratorStoresAnEmptyStatus(t *testing.T) {
	s := newCluster(t, newShop)
	b := &statusHook{respond: func(_ int, request *hook.Request) *hook.Response {
		response := &hook.Response{Status: json.RawMessage(`{}`)}
		if strings.Contains(string(request.Parent), `"status":{}`) {
			response.Children = []json.RawMessage{sign}
		}
		return response
	}}
	shops := shopsOf(t, s, Program{Sync: b, Mark: plan.Mark{Key: "d", Value: "d"}, SyncOnStatusChange: true})
	shops.run(queue.Start)
	s.expectWrites(t, "PUT shops/a/status, POST configmaps/sign")
}

const (
	leaving = `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":2,
		"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.org/test"]},"spec":{},"status":{"open":true}}`
	child = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign","uid":"u-sign","labels":{"controller-uid":"u-a"},
		"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Shop","name":"a","uid":"u-a","controller":true}]}}`
)

// Faults M10 and M9: finalized: true was lost if the response also changed the status or deleted
// the last child. The next response decided instead.
func TestFinalizedIsFinal(t *testing.T) {
	for name, c := range map[string]struct {
		objects []string
		status  string
		wrote   string
	}{
		"another status":     {[]string{leaving}, `{"open":false}`, "PUT shops/a"},
		"no status":          {[]string{leaving}, ``, "PUT shops/a"},
		"the last child":     {[]string{leaving, child}, `{"open":true}`, "DELETE configmaps/sign, PUT shops/a"},
		"a child and status": {[]string{leaving, child}, `{"open":false}`, "DELETE configmaps/sign, PUT shops/a"},
		"others hold it": {[]string{strings.Replace(leaving, `["`, `["other/one","`, 1)}, `{"open":false}`,
			"PUT shops/a/status, PUT shops/a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, c.objects...)
			b := &statusHook{respond: func(call int, _ *hook.Request) *hook.Response {
				response := &hook.Response{Finalized: call == 1}
				if c.status != "" {
					response.Status = json.RawMessage(c.status)
				}
				return response
			}}
			shops := shopsOf(t, s, Program{Sync: b, Finalize: b, SyncOnStatusChange: true})
			ran := shops.run(queue.Start)
			if b.calls != 1 || ran.Outcome != record.Synced || strings.Contains(s.stored("shops/a", "metadata"), "example.org/test") {
				t.Errorf("%d calls, %s, %v; stored %s", b.calls, ran.Outcome, ran.Err, s.stored("shops/a", "metadata"))
			}
			s.expectWrites(t, c.wrote)
		})
	}
}

// Fault M10: finalized: true also counts if the children take time to go, or the first removal of
// the finalizer fails.
func TestFinalizedSurvivesRuns(t *testing.T) {
	s := newCluster(t, leaving, child)
	s.slow = true
	b := &statusHook{respond: func(call int, _ *hook.Request) *hook.Response { return &hook.Response{Finalized: call == 1} }}
	shops := shopsOf(t, s, Program{Sync: b, Finalize: b, SyncOnStatusChange: true})
	shops.run(queue.Start)
	if !strings.Contains(s.stored("shops/a", "metadata"), "example.org/test") {
		t.Fatal("let go of before its child is gone")
	}
	gone := slices.Concat(shops.OwnedBy(shops.Get(queue.Key{Namespace: "town", Name: "a"}))...)[0]
	shops.OwnedView(signs, gone).ObserveDelete(gone)
	s.refuse = func(string, string) int { return http.StatusConflict }
	if ran := shops.run(queue.ChildChanged); ran.Outcome != record.Postponed {
		t.Errorf("%s, %v", ran.Outcome, ran.Err)
	}
	s.refuse = nil
	shops.run(queue.ChildChanged)
	if b.calls != 1 || strings.Contains(s.stored("shops/a", "metadata"), "example.org/test") {
		t.Errorf("%d calls; stored %s", b.calls, s.stored("shops/a", "metadata"))
	}
}

// Fault M3: a controller with only a finalize hook was rejected. It adds its finalizer and calls
// nothing before the parent is deleted.
func TestFinalizeAlone(t *testing.T) {
	b := &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{Finalized: true} }}
	s := newCluster(t, newShop)
	shops := shopsOf(t, s, Program{Finalize: b})
	result, err := shops.DryRun(t.Context(), queue.Key{Namespace: "town", Name: "a"}, nil)
	if err != nil || result.SkipReason == "" || !slices.Contains(result.Parent.Finalizers(), "example.org/test") {
		t.Errorf("planned %q, %v, %v", result.SkipReason, result.Parent.Finalizers(), err)
	}
	for range 2 {
		if ran := shops.run(queue.Resync); ran.Err != nil || b.calls != 0 {
			t.Errorf("%d calls, %v", b.calls, ran.Err)
		}
	}
	if wrote := s.wrote(); wrote != "PUT shops/a" || !strings.Contains(s.stored("shops/a", "metadata"), "example.org/test") {
		t.Errorf("wrote %s", wrote)
	}
	s = newCluster(t, leaving)
	shops = shopsOf(t, s, Program{Finalize: b})
	if ran := shops.run(queue.Start); ran.Outcome != record.Synced || b.calls != 1 || s.stored("shops/a", "metadata") != "" {
		t.Errorf("%s, %d calls", ran.Outcome, b.calls)
	}
}
