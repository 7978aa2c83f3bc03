package controllers

import (
	"errors"
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Fault G7: a controller is not ready while the process of its hook is down, for all kinds
// of controllers and forms of the address.
func TestHookDown(t *testing.T) {
	endpoints, inFlight := calls.NewEndpoints(), calls.NewInFlight()
	controllers := map[string]*compile.Compiled{
		"sync":    {Programs: []composite.Program{{Name: "sync"}}, HookAddresses: []string{"hook.web:80"}},
		"handler": {Handlers: []handler.Program{{Name: "handler"}}, HookAddresses: []string{"elsewhere:443", "hook.web.svc:8080"}},
		"review":  {Admission: &admission.Program{Name: "review"}, HookAddresses: []string{"hook.web.svc.cluster.local.:443"}},
		"other":   {Programs: []composite.Program{{Name: "other"}}, HookAddresses: []string{"hook.webs:80"}},
	}
	downAt := func(want map[string]bool) {
		t.Helper()
		for name, compiled := range controllers {
			r := &runningController{Compiled: compiled, inFlight: inFlight, endpoints: endpoints}
			got := readyCondition(conditionState{ok: true}, &controllerState{}, r.health())
			if down := got.reason == setpoint.ReasonHookUnreachable; down != want[name] || down && got.message != "process worker: ended with exit code 1" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	downAt(nil)
	for _, address := range []string{"hook.web", "hook.web.svc", "hook.web.svc.cluster.local"} {
		endpoints.SetDown(address, errors.New("process worker:\n\tended with exit code 1"))
	}
	downAt(map[string]bool{"sync": true, "handler": true, "review": true})
	endpoints.SetUp("hook.web")
	downAt(map[string]bool{"handler": true, "review": true})
	endpoints.SetUp("hook.web.svc")
	endpoints.SetUp("hook.web.svc.cluster.local")
	downAt(nil)
	endpoints.SetDown("hook.web.svc:9090", errors.New("another port"))
	downAt(nil)
}

// Fault G7: after a restart of the hook, failed reviews of its previous process do not make a
// controller unready. The next review may be long in coming.
func TestReviewFailuresOfPreviousProcess(t *testing.T) {
	cs := newTestSet(Dependencies{Metrics: serving.NewMetrics()})
	cs.Webhooks.Set(queue.Key{Name: "p"}, &admission.Program{Name: "p"})
	cs.Webhooks.Reviewed(admission.ReviewRecord{Program: "p", Webhook: "check", Err: errors.New("connection refused")})
	a := admissionWorker{cs.Webhooks, "p"}
	a.SyncAll(queue.Cause{Kind: queue.Resync})
	if got := a.Health(); got.HookFailing != 1 || got.HookMessage != "connection refused" {
		t.Errorf("%+v", got)
	}
	a.SyncAll(queue.Cause{Kind: queue.HookChanged})
	if got := a.Health(); got.HookFailing != 0 || got.HookMessage != "" || got.LastError.Message != "connection refused" {
		t.Errorf("%+v", got)
	}
}
