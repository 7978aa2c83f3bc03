package manager

import (
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
)

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
		declared := parseObject(t, stored)
		compiled := &compile.Compiled{Programs: []composite.Program{{Version: c.running}}}
		if c.running != "" {
			compiled.Rollout = &compile.Rollout{Version: c.running, Spec: &setpoint.Rollout{}}
		}
		r := &runningController{Compiled: compiled, logicVersions: newLogicVersions(compiled, declared)}
		r.Rollout = c.edited
		e := &controllerEntry{controllerState: controllerState{object: declared, running: r}}
		var status setpoint.ControllerStatus
		new(controllerSet).followLogicVersion(e, &status)
		if status.LogicVersion != "one" {
			t.Errorf("spec.rollout is %s: the version in the status is %q", name, status.LogicVersion)
		}
	}
}
