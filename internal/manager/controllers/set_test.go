package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// newTestSet returns controllers of a process that has nothing but these dependencies.
func newTestSet(d Dependencies) *Set {
	d.InFlight, d.CRDs, d.Log = calls.NewInFlight(), cmp.Or(d.CRDs, crds.NewInstaller(crds.Options{})), slog.New(slog.DiscardHandler)
	d.Leader, d.Resolver = cmp.Or(d.Leader, &leader.Elector{Leadership: leader.NewLeadership()}), cmp.Or(d.Resolver, &kinds.Resolver{})
	d.Environment = func() compile.Environment {
		return compile.Environment{Resolve: d.Resolver.Resolve, ResolveKind: d.Resolver.ResolveKind, Known: d.Resolver.Known.Find, StatusOf: d.CRDs.StatusOf, Store: d.Store}
	}
	d.Permissions, d.Owners = &rbac.Access{}, &conflicts.Owners{Own: func() *setpoint.Instance { return nil }}
	var cs *Set
	d.Webhooks = serving.NewWebhooks(serving.WebhookOptions{
		Log: d.Log, Store: d.Store, Client: d.Client, Leader: d.Leader, Observer: noReviews{},
		Started: func() bool { return cs.Started() }, Listed: func() bool { return cs.AdmissionControllersListed() },
	})
	cs = New(d)
	return cs
}

// noReviews records no reviews.
type noReviews struct{}

func (noReviews) Reviewed(admission.ReviewRecord, queue.Key, bool) {}
func (noReviews) EventAt(string, hook.ObjectEvent)                 {}

// clientOf returns a client of a server.
func clientOf(t *testing.T, server http.RoundTripper) rest.Interface {
	t.Helper()
	return must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: "http://server", Transport: server,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})).In(t)
}

func compositeController(t *testing.T, name string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"` + name + `","uid":"` + name + `"}}`))).In(t)
}

// Two controllers that are both refused because of a third must not requeue each other.
func TestRefusedControllersDoNotRequeueEachOther(t *testing.T) {
	cs := newTestSet(Dependencies{})
	refused := conflicts.Conflict{}.Refusal(queue.Key{Namespace: "kind", Name: "older"})
	for _, name := range []string{"one", "two", "one"} {
		cs.replace(t.Context(), queue.Key{Namespace: "kind", Name: name}, controllerState{object: compositeController(t, name), refusal: refused}, nil)
	}
	if waiting := cs.queue.Len(); waiting != 0 {
		t.Errorf("%d controllers were requeued", waiting)
	}
}

// A starting controller is not ready, although it is no longer queued.
func TestNotReadyWhileControllerStarts(t *testing.T) {
	cs := newTestSet(Dependencies{})
	if cs.checkSynced() == nil {
		t.Error("ready before the start")
	}
	cs.started.Store(true)
	must.Succeed(t, cs.checkSynced()) // With nothing to do.
	cs.queue.Add(queue.Key{Name: "one"}, queue.Cause{Kind: queue.ParentChanged})
	item, _ := cs.queue.Next(t.Context())
	if cs.checkSynced() == nil {
		t.Error("ready while it is being reconciled")
	}
	cs.queue.Done(item.Key, queue.NoRequeue())
	must.Succeed(t, cs.checkSynced()) // When it is done.
}

// Objects may be watched both whole and by metadata. That is one series: two equal series
// would fail the scrape.
func TestMetricsSumWatchesOfOneResource(t *testing.T) {
	s := cache.New(clientOf(t, nil), cache.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.Close)
	for _, metadata := range []bool{false, true} {
		t.Cleanup(s.Watch(cache.Selection{Resource: crds.Resource, Metadata: metadata}, nil).Close)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&serving.Collector{Cache: s, Controllers: New(Dependencies{}).Gauges})
	must.Get(registry.Gather()).In(t)
}

func controllerObject(t *testing.T, metadata string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(`{"metadata":` + metadata + `}`))).In(t)
}

// An operator's webhooks select kinds. One that is served while they are looked up, one after another, is a kind of
// the later webhook alone, until discovery has it.
func TestAnotherReviewIsNotEquivalent(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop"}
	webhooks := func(first ...admission.Rule) *compile.Compiled {
		admit := hook.AdmitterFunc(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) { return nil, nil })
		return &compile.Compiled{AdmissionKinds: []object.Resource{shops}, Admission: &admission.Program{Name: "checks", Webhooks: []admission.Webhook{
			{Name: "whole", Rules: first, Admitter: admit},
			{Name: "parts", Rules: []admission.Rule{{Group: "example.org", Version: "v1", Resources: []string{"shops/*"}}}, Admitter: admit},
		}}}
	}
	whole := admission.Rule{Group: "example.org", Version: "v1", Resources: []string{"shops"}}
	for _, c := range []struct {
		name              string
		running, compiled *compile.Compiled
		want              bool
	}{
		{"the same", webhooks(whole), webhooks(whole), true},
		{"a rule more", webhooks(), webhooks(whole), false},
		{"a rule less", webhooks(whole), webhooks(), false},
		{"no reviews", webhooks(whole), &compile.Compiled{AdmissionKinds: []object.Resource{shops}}, false},
		{"without reviews", &compile.Compiled{}, &compile.Compiled{}, true},
	} {
		if got := (&runningController{Compiled: c.running}).equivalent(c.compiled); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Metrics of handlers have no object names and are deleted with the controller.
func TestMetricsOfHandlers(t *testing.T) {
	m := serving.NewMetrics()
	o := observer{recorders: &recording.Recorders{}, Metrics: m, history: inspect.NewHistory(inspect.HistoryOptions{}, time.Now())}
	o.Ran(record.Run{Controller: "greeter", Outcome: record.Postponed, QueuedFor: time.Second, Took: time.Second})
	for _, err := range []error{
		nil, errors.New("no"), fmt.Errorf("handle: %w", &hook.RetryAfterError{Err: errors.New("later")}),
		&hook.TerminalError{Err: errors.New("never")}, fmt.Errorf("handle: %w", context.DeadlineExceeded),
	} {
		o.Handled("greeter", "greet", hook.ReasonCreate, time.Second, err)
	}
	const want = `setpoint_handler_calls_total error, setpoint_handler_calls_total ok, setpoint_handler_calls_total retry, ` +
		`setpoint_handler_calls_total terminal, setpoint_handler_calls_total timeout, setpoint_reconciles_total postponed`
	if got := outcomeCounters(t, m); got != want {
		t.Errorf("got %s", got)
	}
	m.DeleteController("greeter")
	if got := outcomeCounters(t, m); got != "" {
		t.Errorf("left %s", got)
	}
}

// outcomeCounters returns the counters with a value, by outcome.
func outcomeCounters(t *testing.T, m *serving.Metrics) string {
	t.Helper()
	families := must.Get(m.Gather()).In(t)
	found := map[string]bool{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" {
					found[family.GetName()+" "+label.GetValue()] = true
				}
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

// The health of a controller is that of all its programs.
func TestHealthOfSeveralPrograms(t *testing.T) {
	at := time.Unix(9, 0)
	r := &runningController{workers: []worker{
		staticWorker{controller.Health{Synced: true, Parents: 1, Failing: 1, LastError: controller.LastError{Message: "first", Time: at}}},
		staticWorker{controller.Health{Synced: true, Parents: 2, Children: 3, HookFailing: 1, HookMessage: "no", WatchErrors: map[string]error{"pods": errors.New("x")},
			LastError: controller.LastError{Message: "second", Time: at.Add(1)}}},
	}}
	h := r.health()
	if !h.Synced || h.Parents != 3 || h.Children != 3 || h.Failing != 1 || h.HookMessage != "no" || len(h.WatchErrors) != 1 || h.LastError.Message != "second" {
		t.Errorf("%+v", h)
	}
}

// staticWorker does nothing and has a fixed health.
type staticWorker struct{ health controller.Health }

func (s staticWorker) Run(context.Context)       {}
func (s staticWorker) RetryNow()                 {}
func (s staticWorker) RetryWrites()              {}
func (s staticWorker) SyncAll(queue.Cause)       {}
func (s staticWorker) Health() controller.Health { return s.health }
func (s staticWorker) Close()                    {}

// Hooks and handlers of one controller start and stop together.
func TestHooksAndHandlersAreOneController(t *testing.T) {
	client := clientOf(t, restartingServer{})
	cs := newTestSet(Dependencies{Client: client, Store: cache.New(client, cache.Options{Log: slog.New(slog.DiscardHandler)}), Resolver: &kinds.Resolver{Client: client}})
	t.Cleanup(cs.Store.Close)
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true, Custom: true}
	do := hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{}, nil
	})
	sync := hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) { return &hook.Response{}, nil })
	r := cs.newRunningController(&compile.Compiled{
		Programs: []composite.Program{{Name: "greeter", Parent: shops, Sync: sync, Workers: 1}},
		Handlers: []handler.Program{{Name: "greeter", Resource: shops, HandledAnnotation: "example.org/handled", Workers: 1, Handlers: []trigger.Handler{{Name: "greet", On: []hook.Reason{hook.ReasonCreate}, Do: do}}}},
	}, nil)
	if len(r.workers) != 2 || !r.usesCRD("shops.example.org") || r.usesCRD("others.example.org") || fmt.Sprint(r.parentKinds()) != "[example.org/v1/shops example.org/v1/shops]" {
		t.Errorf("%d programs of %v", len(r.workers), r.parentKinds())
	}
	again := &compile.Compiled{Programs: slices.Clone(r.Programs), Handlers: slices.Clone(r.Handlers)}
	if !r.equivalent(again) {
		t.Error("not equivalent to itself")
	}
	again.Handlers[0].Resource.Status = false
	if r.equivalent(again) {
		t.Error("equivalent to another kind")
	}
}
