package controllers

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
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
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// newTestSet returns controllers of a process that has nothing but these dependencies.
func newTestSet(shared running.Dependencies, own ...GoController) *Set {
	d := Dependencies{
		Dependencies: shared, GoControllers: own, Leader: &leader.Elector{Leadership: leader.NewLeadership()},
		CRDs: crds.NewInstaller(crds.Options{}), Owners: &conflicts.Owners{Own: func() *setpoint.Instance { return nil }},
	}
	d.InFlight, d.Endpoints, d.Log = calls.NewInFlight(), calls.NewEndpoints(), slog.New(slog.DiscardHandler)
	d.Resolver, d.Permissions = cmp.Or(d.Resolver, &kinds.Resolver{}), &rbac.Access{}
	d.Environment = func() compile.Environment {
		return compile.Environment{Resolve: d.Resolver.Resolve, ResolveKind: d.Resolver.ResolveKind, Known: d.Resolver.Known.Find, StatusOf: d.CRDs.StatusOf, Store: d.Store}
	}
	var cs *Set
	d.Webhooks = serving.NewWebhooks(serving.WebhookOptions{
		Log: d.Log, Store: d.Store, Client: d.Client, Leader: d.Leader, Observer: noReviews{},
		Started: func() bool { return cs.Started() }, Listed: func() bool { return cs.AdmissionControllersListed() },
	})
	cs = NewSet(d)
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

// Two controllers that are both refused because of a third must not requeue each other.
func TestRefusedControllersDoNotRequeueEachOther(t *testing.T) {
	cs := newTestSet(running.Dependencies{})
	refused := conflicts.Conflict{}.Refusal(queue.Key{Namespace: "kind", Name: "older"})
	for _, name := range []string{"one", "two", "one"} {
		declared := must.Get(object.Parse([]byte(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController",` +
			`"metadata":{"name":"` + name + `","uid":"` + name + `"}}`))).In(t)
		cs.replace(t.Context(), controllerState{key: queue.Key{Namespace: "kind", Name: name}, object: declared, refusal: refused}, nil)
	}
	if waiting := cs.queue.Len(); waiting != 0 {
		t.Errorf("%d controllers were requeued", waiting)
	}
}

// A starting controller is not ready, although it is no longer queued.
func TestNotReadyWhileControllerStarts(t *testing.T) {
	cs := newTestSet(running.Dependencies{})
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
	registry.MustRegister(&serving.Collector{Cache: s, Controllers: NewSet(Dependencies{}).Gauges})
	must.Get(registry.Gather()).In(t)
}

func controllerObject(t *testing.T, metadata string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(`{"metadata":` + metadata + `}`))).In(t)
}

// A waiting controller is reconciled when a CRD changes, with a short backoff from then on.
func TestChangedCRDRequeuesWaitingController(t *testing.T) {
	cs := newTestSet(running.Dependencies{}, GoController{Name: "keeper"})
	key := goControllerKey("keeper")
	cs.replace(t.Context(), controllerState{key: key, refusal: &compile.Refusal{Reason: setpoint.ReasonResourceNotFound, Err: errors.New("no")}}, nil)
	fail := func() time.Duration {
		item, _ := cs.queue.Next(t.Context())
		return cs.queue.Done(item.Key, queue.Retry())
	}
	cs.queue.Add(key, queue.Cause{Kind: queue.Start})
	first := fail()
	for range 5 {
		cs.queue.Add(key, queue.Cause{Kind: queue.ChildChanged})
		_ = fail()
	}
	cs.compilation.crdWatches.changed(cache.Event{New: controllerObject(t, `{"name":"shops.example.org"}`)})
	if cs.queue.Len() != 1 {
		t.Error("not requeued")
	} else if again := fail(); again > 2*first {
		t.Errorf("retried in %s, not in %s", again, first)
	}
}
