package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// unusedSpec says why the status of a rollout is not that of the present spec. Its zero value means that it is.
type unusedSpec struct {
	why string
	// lasts reports that only an edit changes that.
	lasts bool
	hint  string
}

// lastingReasons are those of the condition Accepted that waiting does not change.
var lastingReasons = []string{
	setpoint.ReasonInvalidSpec, setpoint.ReasonInvalidSource, setpoint.ReasonRevisionNotFound,
	setpoint.ReasonConflictingController, setpoint.ReasonConflictingMetacontroller,
}

// unused compares the conditions with the spec.
func (c *rolloutController) unused() unusedSpec {
	accepted := meta.FindStatusCondition(c.Status.Conditions, setpoint.ConditionAccepted)
	progressing := meta.FindStatusCondition(c.Status.Conditions, setpoint.ConditionProgressing)
	switch current := accepted != nil && accepted.ObservedGeneration >= c.Metadata.Generation; {
	case current && accepted.Status == metav1.ConditionFalse:
		return unusedSpec{
			why:   fmt.Sprintf("the spec is not accepted: %s: %s", accepted.Reason, accepted.Message),
			lasts: slices.Contains(lastingReasons, accepted.Reason),
		}
	case current && accepted.Reason == setpoint.ReasonSourceOutdated:
		return unusedSpec{why: "the code is not in use: " + accepted.Message, lasts: true}
	case c.Spec.Suspend:
		return unusedSpec{why: "the controller is suspended", lasts: true, hint: "to resume it, remove spec.suspend"}
	case c.Metadata.Annotations[setpoint.AnnotationPaused] == "true":
		return unusedSpec{why: "the controller is suspended", lasts: true, hint: "to resume it, remove the annotation " + setpoint.AnnotationPaused}
	case progressing == nil || progressing.ObservedGeneration < c.Metadata.Generation:
		return unusedSpec{why: "the present spec is not in use yet"}
	}
	return unusedSpec{}
}

// unused says why the status is not that of the present spec and code.
func (r *rolloutRun) unused(ctx context.Context) unusedSpec {
	why := r.controller.unused()
	if s := r.controller.Status.Rollout; why.why == "" && s != nil {
		// A user who may not read versions or code sees what the conditions say.
		if stored, err := r.version(ctx, s.Namespace, s.To); err == nil {
			if same, err := r.isSpec(ctx, &stored); err == nil && !same {
				why.why = "the present code is not in use yet"
			}
		}
	}
	return why
}

// isSpec reports whether a version has the hooks of the spec, and the present code.
func (r *rolloutRun) isSpec(ctx context.Context, v *logicRevision) (bool, error) {
	spec := &r.controller.Spec
	if !sameValue(spec.Hooks, v.Data.Hooks) || !sameValue(spec.EndpointConfigs, v.Data.EndpointConfigs) {
		return false, nil
	}
	for _, then := range v.Data.ConfigMaps {
		now, err := r.codeNow(ctx, then)
		if err != nil {
			return false, err
		}
		if now == nil || !maps.Equal(now.Data, then.Data) {
			return false, nil
		}
	}
	return true, nil
}

// sameValue reports whether two texts have the same JSON value. One that is absent is null.
func sameValue(a, b json.RawMessage) bool {
	var values [2]any
	for i, text := range []json.RawMessage{a, b} {
		if len(text) > 0 && json.Unmarshal(text, &values[i]) != nil {
			return false
		}
	}
	return equality.Semantic.DeepEqual(values[0], values[1])
}

// storedCode is what undo reads of a ConfigMap with code.
type storedCode struct {
	Metadata  struct{ UID, ResourceVersion string }
	Data      map[string]string
	Immutable bool
}

// codeNow reads a ConfigMap with code; nil if it does not exist.
func (r *rolloutRun) codeNow(ctx context.Context, of compile.CodeConfigMap) (*storedCode, error) {
	text, err := r.perms.api.Get(ctx, object.KindOf(object.ConfigMaps), of.Namespace, of.Name)
	if errors.Is(err, failure.ErrNotFound) {
		return nil, nil //nolint:nilnil // It was deleted.
	}
	if err != nil {
		return nil, err
	}
	var now storedCode
	if err := json.Unmarshal(text, &now); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", of.Namespace, of.Name, err)
	}
	return &now, nil
}

// version reads a stored version.
func (r *rolloutRun) version(ctx context.Context, namespace, name string) (logicRevision, error) {
	var v logicRevision
	text, err := r.perms.api.Get(ctx, object.KindOf(plan.ControllerRevisions), namespace, name)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("read the ControllerRevision %s/%s: %w", namespace, name, err)
	}
	return v, nil
}
