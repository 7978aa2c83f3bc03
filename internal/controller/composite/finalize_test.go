package composite

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// newTestBase returns a Base without watches.
func newTestBase(o controller.Observer) *controller.Base {
	return controller.New(&Controller{Router: router.New(nil, router.Options{})}, controller.Options{}, controller.Dependencies{Observer: o, Writer: apply.New(nil, apply.Options{}), Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

// eventCounter counts events.
type eventCounter int

func (*eventCounter) Ran(record.Run)                                            {}
func (*eventCounter) Deleted(record.Run)                                        {}
func (*eventCounter) Handled(string, string, hook.Reason, time.Duration, error) {}
func (w *eventCounter) OwnEvent(o *object.Object, event hook.Event)             { w.Event(o, event) }

func (w *eventCounter) Event(*object.Object, hook.Event) { *w++ }

// newTestRun returns a run for a parent.
func newTestRun(t *testing.T, o controller.Observer) *run {
	c := &Controller{Base: newTestBase(o), Router: router.New(nil, router.Options{})}
	parent := parse(t, `{"kind":"Shop","metadata":{"name":"p","uid":"u"}}`)
	r := c.newRun(c.NewRun(queue.Item{Key: queue.Key{Name: "p"}}, parent))
	r.Record = record.New(record.Run{}, time.Now)
	return r
}

// Conflicts are retried silently, but not forever: if they last, they are reported as a failure.
func TestConflictRetriesAreBounded(t *testing.T) {
	var reported eventCounter
	r := newTestRun(t, &reported)
	for range controller.MaxConflicts {
		if outcome, _ := r.finish(t.Context(), controller.ErrConflict); outcome != record.Postponed || reported != 0 {
			t.Fatalf("%s, reported %d times", outcome, reported)
		}
	}
	if outcome, _ := r.finish(t.Context(), controller.ErrConflict); outcome != record.Failed || reported != 1 {
		t.Errorf("%s, reported %d times", outcome, reported)
	}
	if outcome, _ := r.finish(t.Context(), nil); outcome != record.Skipped || r.memory.Conflicts != 0 {
		t.Errorf("%s, still %d", outcome, r.memory.Conflicts)
	}
}

// A run that the end of its context interrupts has not failed: it records no "context canceled".
func TestInterruptedRunHasNoError(t *testing.T) {
	r := newTestRun(t, new(eventCounter))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	outcome, _ := r.finish(ctx, context.Canceled)
	if run := r.Record.Finish(outcome); outcome != record.Postponed || run.Err != nil {
		t.Errorf("%s: %v", outcome, run.Err)
	}
}

// A response cannot have its hook called at full speed.
func TestShortestResync(t *testing.T) {
	for requested, want := range map[time.Duration]time.Duration{0: 0, time.Nanosecond: minResync, minResync: minResync, time.Hour: time.Hour} {
		if got := resyncDelay(&hook.Response{ResyncAfter: requested}); got != want {
			t.Errorf("%s: again in %s, want %s", requested, got, want)
		}
	}
	if got := resyncDelay(nil); got != 0 {
		t.Errorf("without a response again in %s", got)
	}
}

const deletedShop = `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1,` +
	`"finalizers":["example.org/test"],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`

// customizer selects gadgets, which no API server serves, or fails.
type customizer struct{ err error }

func (c customizer) Customize(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "example.org/v1", Resource: "gadgets"}}}, c.err
}

// finalizer is a finalize hook that is done at once. It notes the related groups that it gets.
type finalizer struct {
	related  []hook.Group
	children []json.RawMessage
}

func (f *finalizer) Call(_ context.Context, request *hook.Request) (*hook.Response, error) {
	f.related = request.Related
	return &hook.Response{Finalized: true, Children: f.children}, nil
}

// A deletion does not wait for a related kind that is gone.
func TestFinalizeGetsAnEmptyGroupForARelatedKindThatIsNotServed(t *testing.T) {
	s, hook := newCluster(t, deletedShop), &finalizer{}
	shops := shopsOf(t, s, Program{Sync: makes(), Finalize: hook, Customize: customizer{}})
	shops.run(queue.Start)
	if left := s.stored("shops/a", "metadata"); left != "" {
		t.Fatalf("the parent stays: %s; events %q", left, shops.events)
	}
	if len(hook.related) != 1 || hook.related[0].Kind != "Gadget" || len(hook.related[0].Objects) != 0 {
		t.Errorf("related %v, want an empty group of Gadgets", hook.related)
	}
	want := "RelatedMissing: the finalize hook is called without related objects: gadgets.example.org/v1: not served by the API server"
	if !slices.Contains(shops.events, want) {
		t.Errorf("events %q, want %q", shops.events, want)
	}
}

// A parent that has never had what its deletion needs gets no finalizer.
func TestNoFinalizerBeforeTheRelatedKindIsServed(t *testing.T) {
	s := newCluster(t, newShop)
	shops := shopsOf(t, s, Program{Sync: makes(), Finalize: &finalizer{}, Customize: customizer{}})
	if ran := shops.run(queue.Start); ran.Outcome != record.Failed {
		t.Errorf("%s, want a failure", ran.Outcome)
	}
	if metadata := s.stored("shops/a", "metadata"); strings.Contains(metadata, "example.org/test") {
		t.Errorf("the parent has the finalizer: %s", metadata)
	}
}

// A customize hook that keeps failing does not stop the deletion, one failure is retried.
func TestFinalizeDoesNotWaitForACustomizeHookThatKeepsFailing(t *testing.T) {
	s, hook := newCluster(t, deletedShop), &finalizer{}
	shops := shopsOf(t, s, Program{Sync: makes(), Finalize: hook, Customize: customizer{err: errors.New("thrown")}})
	for attempt := 1; s.stored("shops/a", "metadata") != ""; attempt++ {
		if attempt > customizePatience {
			t.Fatalf("the parent stays after %d runs; events %q", customizePatience, shops.events)
		}
		shops.run(queue.Retrying)
		if gone := s.stored("shops/a", "metadata") == ""; gone != (attempt == customizePatience) {
			t.Errorf("gone after %d runs: %v", attempt, gone)
		}
	}
}

var gadgets = object.Resource{Group: "example.org", Version: "v1", Plural: "gadgets", Kind: "Gadget", Namespaced: true, Custom: true, Unserved: true}

var gadget = json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"g"}}`)

// Children of a kind that is not served any more do not exist: the sync goes on for the others and says what is
// missing, and a deletion goes on.
func TestChildrenOfAKindThatIsNotServed(t *testing.T) {
	rules := plan.Rules{{Resource: gadgets, Method: plan.InPlace}}
	s := newCluster(t, newShop)
	sync := &statusHook{respond: says(hook.Response{Children: []json.RawMessage{gadget, sign}, Status: json.RawMessage(`{"ready":true}`)})}
	shops := shopsOf(t, s, Program{Sync: sync, Children: rules, Conditions: true})
	ran := shops.run(queue.Start)
	if s.stored("configmaps/sign", "data") != `{"a":"b"}` {
		t.Error("the other child is missing")
	}
	if status := s.stored("shops/a", "status"); ran.Outcome != record.Failed || !strings.Contains(status, "gadgets.example.org/v1: not served") ||
		!strings.Contains(status, `"ready":true`) || strings.Contains(status, `"Synced","status":"True"`) {
		t.Errorf("%s, status %s", ran.Outcome, status)
	}

	s = newCluster(t, deletedShop)
	shops = shopsOf(t, s, Program{Sync: sync, Finalize: &finalizer{children: []json.RawMessage{gadget}}, Children: rules})
	shops.run(queue.Start)
	if left := s.stored("shops/a", "metadata"); left != "" {
		t.Errorf("the parent stays: %s; events %q", left, shops.events)
	}
}

// What the last response of a decorator says about the parent is not lost in a conflict: the finalizer goes after it.
func TestTheLastResponseOfAFinalizeHookSurvivesAConflict(t *testing.T) {
	s := newCluster(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1,`+
		`"annotations":{"mine":"1"},"finalizers":["example.org/test"]},"spec":{}}`)
	calls := 0
	last := &statusHook{respond: func(int, *hook.Request) *hook.Response {
		calls++
		return &hook.Response{Finalized: calls == 1, Annotations: map[string]*string{"mine": nil}}
	}}
	never := []Selection{{Labels: labels.SelectorFromSet(labels.Set{"decorate": "yes"})}}
	shops := shopsOf(t, s, Program{Sync: makes(), Finalize: last, Mark: plan.Mark{Key: "d", Value: "d"}, Selections: never})
	conflicts := 2
	s.refuse = func(string, string) int {
		conflicts--
		if conflicts >= 0 {
			return http.StatusConflict
		}
		return 0
	}
	shops.runTimes(4, queue.ParentChanged)
	if metadata := s.stored("shops/a", "metadata"); strings.Contains(metadata, "mine") || strings.Contains(metadata, "example.org/test") {
		t.Errorf("the parent has %s", metadata)
	}
	if calls != 1 {
		t.Errorf("%d calls, want one", calls)
	}
}
