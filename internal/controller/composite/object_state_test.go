package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// forbiddingServer is a fake server that forbids creating signs and quotes them in the error.
type forbiddingServer struct{ fakeServer }

func (s *forbiddingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.fakeServer.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not \"open sesame\""}`))
}

// newTestController returns a controller that creates a sign for the shop.
func newTestController(t *testing.T, at http.Handler, tools Tools) *Controller {
	t.Helper()
	return newTestControllerWith(t, at, tools, plan.InPlace)
}

// newTestControllerWith returns one that updates its signs by a method.
func newTestControllerWith(t *testing.T, at http.Handler, tools Tools, method plan.UpdateMethod) *Controller {
	t.Helper()
	server := httptest.NewServer(at)
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})
	if err != nil {
		t.Fatal(err)
	}
	tools.Log = slog.New(slog.DiscardHandler)
	cached := cache.New(client, cache.Options{Log: tools.Log})
	t.Cleanup(cached.Close)
	tools.Store, tools.Writer = cached, apply.New(client, apply.Options{})
	c := New(Program{
		Name: "test", Parent: stalls, Children: plan.Rules{{Resource: signs, Method: method}}, GenerateSelector: true, Workers: 1, LastApplied: "example.org/last",
		Sync: hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
			return &hook.Response{Children: []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign"},"data":{"a":"open sesame"}}`)}}, nil
		}),
	}, tools)
	t.Cleanup(c.Close)
	return c
}

// The error of a refused write may quote the object. Its kind is known even without records.
func TestObjectStateHasLocationsOfItsError(t *testing.T) {
	for _, unrecorded := range []bool{false, true} {
		c := newTestController(t, &forbiddingServer{}, Tools{Observer: &runRecorder{}, Unrecorded: unrecorded})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		var state record.ObjectState
		for deadline := time.Now().Add(time.Minute); !state.Failing && time.Now().Before(deadline); {
			<-time.After(5 * time.Millisecond)
			state, _ = c.ObjectState(queue.Key{Namespace: "town", Name: "a"})
		}
		stop()
		<-ended
		want := record.Location{Resource: signs, Namespace: "town"}
		if !strings.Contains(state.Error, "sesame") || len(state.Locations) != 1 || state.Locations[0] != want {
			t.Errorf("unrecorded %t: %q among %v", unrecorded, state.Error, state.Locations)
		}
		if last := c.Health().LastError; len(last.Locations) != 1 || last.Locations[0] != want {
			t.Errorf("unrecorded %t: last %+v", unrecorded, last)
		}
	}
}

// A standby controller knows the objects, but not their state.
func TestObjectStateWithoutLeadership(t *testing.T) {
	c := newTestController(t, &fakeServer{}, Tools{Observer: &runRecorder{}})
	<-c.parents.Ready()
	if all := c.ObjectStates(); len(all) != 1 || !all[0].Standby || all[0].Queued {
		t.Errorf("managed: %+v", all)
	}
}

// Objects that name a parent as their owner, and that the controller does not manage, do not raise the limit of
// the deletion guard.
func TestForgedChildrenDoNotCount(t *testing.T) {
	c := shopsOf(t, newCluster(t, newShop), Program{Sync: hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		return &hook.Response{}, nil
	})})
	parent := c.Get(queue.Key{Namespace: "town", Name: "a"})
	for i, metadata := range []string{
		`"namespace": "town", "labels": {"controller-uid": %q}`,
		`"namespace": "elsewhere", "labels": {"controller-uid": %q}`,
		`"namespace": "town", "labels": {"controller-uid": "not %s"}`,
		`"namespace": "town", "labels": {"controller-uid": %q}, "finalizers": ["x.org/y"], "deletionTimestamp": "2026-01-01T00:00:00Z"`,
	} {
		c.observe(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c%d", "uid": "u%[1]d", "resourceVersion": "%[1]d1",
			"ownerReferences": [{"apiVersion": "example.org/v1", "kind": "Shop", "name": "a", "uid": %[2]q, "controller": true}], %[3]s}}`,
			i+1, parent.UID(), fmt.Sprintf(metadata, parent.UID())))
	}
	if got := c.CountAllChildren(); got != 1 {
		t.Errorf("%d children count, want 1", got)
	}
}
