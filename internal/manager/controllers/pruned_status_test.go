package controllers

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Fault M1: a status that the schema prunes is written once, and again when the CRD changes.
func TestPrunedStatusIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pruningServer{}
		cs, key := controllersOf(t, s, prunedController)
		report := func() {
			e := cs.registry.get(key)
			cs.reportStatus(t.Context(), &e)
		}
		for range 5 {
			report()
			<-time.After(reportEvery)
		}
		if got := s.patches.Load(); got != 1 {
			t.Errorf("%d writes of a status that does not change, want 1", got)
		}
		cs.registry.change(key, func(e *controllerEntry) { e.refusal = &compile.Refusal{Reason: "Other", Err: io.EOF} })
		report()
		if got := s.patches.Load(); got != 1 {
			t.Errorf("%d writes of what cannot be stored, want 1", got)
		}
		cs.ResetReported()
		report()
		if got := s.patches.Load(); got != 2 {
			t.Errorf("%d writes after the CRD changed, want 2", got)
		}
		if reported := cs.registry.get(key).lastReported.Status; reported.Conditions[0].Reason != "Other" {
			t.Errorf("reported %+v", reported)
		}
	})
}

// pruningServer is an API server without a network. It has one controller object and stores
// no status.
type pruningServer struct{ patches atomic.Int32 }

const prunedController = `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"DecoratorController","metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":1},"status":{}}`

func (s *pruningServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := prunedController
	switch {
	case r.Method == http.MethodPatch:
		if strings.Contains(r.URL.Path, "/decoratorcontrollers/") { // Events are patched, too.
			s.patches.Add(1)
		}
	case r.URL.Query().Get("watch") != "":
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		body = `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + prunedController + `]}`
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// controllersOf returns the controllers of a process with one DecoratorController.
func controllersOf(t *testing.T, server http.RoundTripper, stored string) (*Set, queue.Key) {
	t.Helper()
	client := clientOf(t, server)
	cs := newTestSet(running.Dependencies{Client: client, Resolver: &kinds.Resolver{Client: client}, Store: cache.New(client, cache.Options{Log: slog.New(slog.DiscardHandler)}), Events: events.NewWriter(client, events.Options{Dropped: func(string) {}})})
	t.Cleanup(cs.Store.Close)
	t.Cleanup(cs.Events.Close)
	kinds := compile.Kinds()
	kind := kinds[len(kinds)-1]
	view := cs.Store.Watch(cache.Selection{Resource: kind.Resource}, nil)
	<-view.Ready()
	cs.declared.Add(kind, view)
	key := queue.Key{Namespace: kind.Name, Name: "a"}
	declared := must.Get(object.Parse([]byte(stored))).In(t)
	cs.registry.set(controllerState{key: key, object: declared})
	return cs, key
}
