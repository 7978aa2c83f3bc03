package dashboard

import (
	"time"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// rolloutActions returns the actions for the rollout of a controller; none without one to pause
// or to continue.
func (req *request) rolloutActions(c *inspect.Controller) []action {
	if c.Rollout == nil || c.Declared == nil {
		return nil
	}
	change := action{
		Label: "Pause rollout", Icon: "pause", Post: true, URL: controllerURL(c.Process, c.Name) + "/rollout",
		Fields: map[string]string{"do": "pause"}, DisabledReason: req.missingPermission("patch", *c.Declared),
	}
	paused := c.Condition(v1alpha1.ConditionProgressing).Reason == v1alpha1.ReasonRolloutPaused
	switch {
	case paused, c.Rollout.Phase == v1alpha1.RolloutRolledBack:
		change.Label, change.Icon, change.Fields = "Resume rollout", "play", map[string]string{"do": "resume"}
	case c.Rollout.Phase == v1alpha1.RolloutComplete:
		return nil
	}
	return []action{change}
}

// changeRollout pauses a rollout, continues it, or starts it again after a rollback.
func changeRollout(req *request) error {
	var change func(*inspect.Controller) map[string]any
	var done string
	switch do := req.field("do"); do {
	case "pause":
		done, change = "Rollout paused.", func(*inspect.Controller) map[string]any { return rolloutPatch(true) }
	case "resume":
		done, change = "Rollout resumed.", func(c *inspect.Controller) map[string]any {
			patch := rolloutPatch(false)
			if c.Rollout != nil && c.Rollout.Phase == v1alpha1.RolloutRolledBack {
				patch["metadata"] = annotationPatch(v1alpha1.AnnotationRolloutRetryAt, req.now().UTC().Format(time.RFC3339Nano))["metadata"]
			}
			return patch
		}
	default:
		return badRequest("Unknown action %q: pause or resume the rollout.", do)
	}
	_, c, err := req.controller()
	if err != nil {
		return err
	}
	if c.Rollout == nil {
		return badRequest("Controller %s has no rollout: its spec has no spec.rollout.", shortName(c.Name))
	}
	return req.patchController(done, change)
}

func rolloutPatch(paused bool) map[string]any {
	return map[string]any{"spec": map[string]any{"rollout": map[string]any{"paused": paused}}}
}
