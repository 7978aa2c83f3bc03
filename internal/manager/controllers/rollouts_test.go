package controllers

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/rollout"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// rolloutAt returns a controller object whose rollout has a position.
func rolloutAt(version, position string) string {
	return `{"apiVersion":"setpoint.dev/v1alpha1","kind":"DecoratorController","metadata":{"name":"a","uid":"u","resourceVersion":"` + version + `"},` +
		`"status":{"rollout":{"phase":"Stepping","from":"v1","to":"v2","position":` + position + `}}}`
}

// laggingServer returns a newer object than its watch, which sends one event when it is released.
type laggingServer struct{ released chan struct{} }

func (s *laggingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := rolloutAt("2", "0")
	switch {
	case r.URL.Query().Get("watch") != "":
		select {
		case <-s.released:
			body = `{"type":"MODIFIED","object":` + body + `}`
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case !strings.HasSuffix(r.URL.Path, "/a"):
		body = `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + rolloutAt("1", "4294967296") + `]}`
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// A new leader whose cache is behind starts when it knows what the leader before has stored. Until then it would
// call the version that was taken back.
func TestANewLeaderWaitsForTheStoredPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &laggingServer{released: make(chan struct{})}
		cs, key := controllersOf(t, s, rolloutAt("1", "0"))
		cs.Metrics = serving.NewMetrics()
		r := &running.Controller{Assignment: router.NewAssignment(), Compiled: &compile.Compiled{
			Rollout: &compile.Rollout{Version: "v2", Spec: &setpoint.Rollout{}}, Programs: []composite.Program{{Previous: &controller.Logic{Version: "v1"}}},
		}}
		restored := make(chan bool)
		go func() { restored <- cs.reconciler.rollouts.restore(t.Context(), key, r) }()
		<-time.After(time.Minute)
		select {
		case <-restored:
			t.Fatal("it starts with a position from before the rollback")
		default:
		}
		s.released <- struct{}{}
		if !<-restored || r.Assignment.Position() != 0 {
			t.Errorf("position %d of %d", r.Assignment.Position(), rollout.End)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if cs.reconciler.rollouts.restore(ctx, key, r) {
			t.Error("it starts although it does not lead any more")
		}
	})
}

// A status is stored only in the object that it was computed from.
func TestStatusPatchIsRefusedForAnotherObject(t *testing.T) {
	of := must.Get(object.Parse([]byte(rolloutAt("7", "1")))).In(t)
	change := must.Get(declared.StatusPatch(of, compile.StoredStatus(of), setpoint.ControllerStatus{})).In(t)
	patch, err := json.Marshal(change)
	if want := `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{`; err != nil || !strings.HasPrefix(string(patch), want) {
		t.Errorf("%s, %v", patch, err)
	}
}

// holdingWorker holds deletions of a moved parent from when it is first looked at.
type holdingWorker struct {
	running.Worker

	held bool
}

func (w *holdingWorker) Rollout() rollout.Observed {
	w.held = true
	return rollout.Observed{Hashes: []int64{0}, Held: "held"}
}

func (w *holdingWorker) Health() controller.Health {
	if !w.held {
		return controller.Health{Synced: true}
	}
	return controller.Health{Synced: true, Held: controller.HeldDeletions{Count: 1, Parents: 1, Value: "0123456789abcdef"}}
}

// Held deletions that take a rollout back are in the status that says so: the version before wants no deletions, so no
// later status has them.
func TestHeldDeletionsOfARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		declared := must.Get(object.Parse([]byte(rolloutAt("1", "1")))).In(t)
		r := &running.Controller{
			Compiled:   &compile.Compiled{Rollout: &compile.Rollout{Version: "v2", Spec: &setpoint.Rollout{}}},
			Workers:    []running.Worker{&holdingWorker{}},
			Deletions:  guard.New(nil, nil),
			Assignment: router.NewAssignment(),
		}
		cs, key := controllersOf(t, &laggingServer{released: make(chan struct{})}, rolloutAt("1", "1"))
		e := cs.registry.get(key)
		e.running, r.Dependencies = r, &cs.Dependencies.Dependencies
		status := cs.nextStatus(t.Context(), &e, compile.StoredStatus(declared), declared)
		if status.Rollout.Phase != setpoint.RolloutRolledBack || !HasHeldDeletions(status.Conditions) {
			t.Errorf("%s: rollout %+v, conditions %+v", key, status.Rollout, status.Conditions)
		}
	})
}

// An edit of spec.rollout restarts no program: responses are still of the version that it was started with.
func TestLogicVersionIsOfTheRunningProgram(t *testing.T) {
	const stored = `{"apiVersion":"setpoint.dev/v1alpha1","kind":"DecoratorController","metadata":{"name":"a"},"status":{"logicVersion":"one"}}`
	for name, c := range map[string]struct {
		running string
		edited  *compile.Rollout
	}{
		"added":   {"", &compile.Rollout{Version: "v1", Spec: &setpoint.Rollout{}}},
		"removed": {"v1", nil},
	} {
		declared := must.Get(object.Parse([]byte(stored))).In(t)
		compiled := &compile.Compiled{Programs: []composite.Program{{Version: c.running}}}
		if c.running != "" {
			compiled.Rollout = &compile.Rollout{Version: c.running, Spec: &setpoint.Rollout{}}
		}
		r := &running.Controller{Compiled: compiled, Reported: router.NewReported(c.running, "one")}
		r.Rollout = c.edited
		e := &controllerEntry{controllerState: controllerState{object: declared, running: r}}
		var status setpoint.ControllerStatus
		new(rollouts).followLogicVersion(e, &status)
		if status.LogicVersion != "one" {
			t.Errorf("spec.rollout is %s: the version in the status is %q", name, status.LogicVersion)
		}
	}
}
