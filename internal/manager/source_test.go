package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// A source returns the state of the process, and Await returns on changes.
func TestInspect(t *testing.T) {
	m := startManager(t, &fakeAPIServer{}, Options{GoControllers: []controllers.GoController{shopHandlerController("greeter")}, Name: "shopkeeper", Version: "v7", CRDs: [][]byte{[]byte(shopsManifest)}})
	s := m.Inspect()
	must.Eventually(t, "ready", func() bool { return readyz(m) == "ok" })
	process, err := s.Process(t.Context())
	if err != nil || process.Name != "shopkeeper" || process.Version != "v7" || !process.IsLeader || process.LeaderElection || process.HeapBytes == 0 || len(process.Watches) == 0 {
		t.Errorf("process %+v, %v", process, err)
	}
	for _, w := range process.Watches {
		if w.Kind.Plural == "" || !strings.Contains(w.Selection, w.Kind.Plural) {
			t.Errorf("watch %+v", w)
		}
	}
	controllers, err := s.Controllers(t.Context())
	if err != nil || len(controllers) != 1 {
		t.Fatalf("%v, %v", controllers, err)
	}
	c := &controllers[0]
	if c.Name != "greeter" || c.Process != "shopkeeper" || c.Declared != nil || len(c.Kinds) != 1 || c.Kinds[0].Plural != "shops" || c.Ready().Status != "True" || len(c.Description) == 0 {
		t.Errorf("controller %+v", c)
	}
	if page, err := s.Objects(t.Context(), "greeter", inspect.Query{}); err != nil || page.Total != 0 || page.Objects == nil {
		t.Errorf("objects %+v, %v", page, err)
	}
	if _, err := s.Objects(t.Context(), "unknown", inspect.Query{}); !errors.Is(err, failure.ErrNotFound) {
		t.Errorf("objects of an unknown controller: %v", err)
	}
	shop := object.Ref{Kind: object.Kind{Group: "example.org", Kind: "Shop"}, Namespace: "town", Name: "a"}
	if about, err := s.States(t.Context(), shop); err != nil || len(about) != 0 {
		t.Errorf("states of an unknown object: %v, %v", about, err)
	}
	if _, err := s.Plan(t.Context(), "greeter", shop, nil); !errors.Is(err, errPlanUnsupported) {
		t.Errorf("planned: %v", err)
	}
	m.History.Add(record.Run{
		Controller: "greeter", Object: object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop"}.Ref("town", "a"),
		Began: time.Now(), Outcome: record.Synced,
	})
	runs, err := s.Runs(t.Context(), shop, 0)
	if err != nil || len(runs) != 1 || runs[0].Process != "shopkeeper" {
		t.Errorf("runs %+v, %v", runs, err)
	}
	if run, err := s.Run(t.Context(), runs[0].ID, false); err != nil || run.ID != runs[0].ID {
		t.Errorf("run %+v, %v", run, err)
	}
	now, err := s.Await(t.Context(), 0)
	if err != nil || now == 0 {
		t.Errorf("revision %d, %v", now, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if same, err := s.Await(ctx, now); same == now && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("revision %d, %v", same, err)
	}
}

// A review is a run with one call.
func TestReviewRecord(t *testing.T) {
	for _, c := range []struct {
		occasion admission.ReviewRecord
		want     string
	}{
		{admission.ReviewRecord{Program: "p", Webhook: "w", Result: admission.Errored, Err: errors.New("no"), TraceID: " 7"}, "failed of : a review, called w, no 7"},
		{admission.ReviewRecord{Program: "p", Webhook: "w", Result: admission.Denied, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Request: &hook.ReviewRequest{
			Operation: hook.OperationCreate, APIVersion: "apps/v1", Kind: "Deployment", Resource: "deployments", Namespace: "town", User: hook.User{Name: "anna"}, DryRun: true,
		}}, "denied apps Deployment of town/: create by anna, as a dry run, as reported by the caller, called w, <nil>"},
		// Fault S5: a caller without a certificate of the API server may be anyone.
		{admission.ReviewRecord{Program: "p", Webhook: "w", Result: admission.Allowed, Authenticated: true, Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Request: &hook.ReviewRequest{
			Operation: hook.OperationDelete, APIVersion: "v1", Kind: "Namespace", Resource: "namespaces", Namespace: "town", Name: "town", User: hook.User{Name: "anna"},
		}}, "allowed Namespace of town: delete by anna, called w, <nil>"},
		{admission.ReviewRecord{Program: "p", Webhook: "w", Result: admission.Allowed, Authenticated: true, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Request: &hook.ReviewRequest{
			Operation: hook.OperationUpdate, APIVersion: "autoscaling/v1", Kind: "Scale", Resource: "deployments", Subresource: "scale", Namespace: "town", Name: "web", User: hook.User{Name: "anna"},
		}}, "allowed apps Scale of town/web: update by anna, called w, <nil>"},
		{admission.ReviewRecord{Program: "p", Webhook: "w", Result: admission.Allowed, Authenticated: true, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Request: &hook.ReviewRequest{
			Operation: hook.OperationCreate, APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: "town", User: hook.User{Name: "anna"},
			Object: []byte(`{"metadata":{"generateName":"web-","name":"web-1"}}`),
		}}, "allowed Pod of town/web-1: create by anna, called w, <nil>"},
		{admission.ReviewRecord{Program: "p", Webhook: "w", Result: admission.Allowed, Authenticated: true, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Request: &hook.ReviewRequest{
			Operation: hook.OperationCreate, APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: "town", Name: strings.Repeat("x", 1<<20), User: hook.User{Name: "anna"},
		}}, "allowed Pod of town/" + strings.Repeat("x", maxName-len("…")) + "…: create by anna, called w, <nil>"},
	} {
		run := reviewRecord(c.occasion)
		kind := run.Object.Kind.Kind
		if run.Object.Group != "" {
			kind = run.Object.Group + " " + kind
		}
		if kind != "" {
			kind = " " + kind
		}
		if got := fmt.Sprintf("%s%s of %s: %s, called %s, %v%s", run.Outcome, kind, queue.Key{Namespace: run.Object.Namespace, Name: run.Object.Name}, run.Trigger, run.Steps[0].Call.Name, run.Err, run.TraceID); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
