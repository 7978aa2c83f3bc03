package cli

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
)

func TestUndoTarget(t *testing.T) {
	hooks := func(name string) json.RawMessage {
		return json.RawMessage(`{"sync":{"webhook":{"url":"http://` + name + `"}}}`)
	}
	stored := []logicRevision{}
	for i, name := range []string{"complete", "bad", "former", "first"} {
		stored = append(stored, logicRevision{Revision: int64(4 - i), Metadata: revisionMeta{Name: name}, Data: compile.VersionData{Hooks: hooks(name)}})
	}
	for what, c := range map[string]struct {
		status   setpoint.RolloutStatus
		spec     string
		revision int64
		want     string
		err      string
	}{
		"complete":      {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, spec: "complete", want: "former"},
		"first version": {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "first"}, spec: "first", err: "there is no version before the present one"},
		"complete, and the spec has another version that is not in use": {
			status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, spec: "new", want: "complete",
		},
		"first version, and another one is not in use": {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "first"}, spec: "new", want: "first"},
		"in the middle":             {status: setpoint.RolloutStatus{Phase: setpoint.RolloutStepping, From: "former", To: "complete", Previous: "first"}, spec: "complete", want: "former"},
		"in the middle, changed":    {status: setpoint.RolloutStatus{Phase: setpoint.RolloutStepping, From: "former", To: "complete", Previous: "first"}, spec: "new", want: "former"},
		"taken back":                {status: setpoint.RolloutStatus{Phase: setpoint.RolloutRolledBack, From: "former", To: "bad", Previous: "first"}, spec: "bad", want: "former"},
		"named":                     {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, revision: 3, want: "bad"},
		"named, but not stored":     {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete"}, revision: 9, err: "has no revision 9"},
		"the one before is missing": {status: setpoint.RolloutStatus{Phase: setpoint.RolloutStepping, From: "gone", To: "complete", Namespace: "system"}, spec: "complete", err: "no ControllerRevision system/gone"},
	} {
		t.Run(what, func(t *testing.T) {
			r := &rolloutRun{rolloutFlags: &rolloutFlags{revision: c.revision}}
			r.controller.Status.Rollout, r.controller.Spec.Hooks = &c.status, hooks(c.spec)
			before, err := r.before(t.Context(), stored)
			var got logicRevision
			if err == nil {
				got, err = r.undoTarget(stored, before)
			}
			if got.Metadata.Name != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v", got.Metadata.Name, err)
			}
		})
	}
}

func TestUnusedSpec(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, generation int64, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: "because"}
	}
	progressing := condition(setpoint.ConditionProgressing, metav1.ConditionTrue, 2, setpoint.ReasonRolloutComplete)
	for what, c := range map[string]struct {
		conditions []metav1.Condition
		suspend    bool
		annotation string
		want       string
		lasts      bool
	}{
		"current": {conditions: []metav1.Condition{progressing, condition(setpoint.ConditionAccepted, metav1.ConditionTrue, 2, setpoint.ReasonAccepted)}},
		"not observed yet": {
			conditions: []metav1.Condition{condition(setpoint.ConditionProgressing, metav1.ConditionTrue, 1, setpoint.ReasonRolloutComplete), condition(setpoint.ConditionAccepted, metav1.ConditionFalse, 1, setpoint.ReasonInvalidSpec)},
			want:       "the present spec is not in use yet",
		},
		"no status": {want: "the present spec is not in use yet"},
		"refused": {
			conditions: []metav1.Condition{progressing, condition(setpoint.ConditionAccepted, metav1.ConditionFalse, 2, setpoint.ReasonInvalidSpec)},
			want:       "the spec is not accepted: InvalidSpec: because", lasts: true,
		},
		"refused for now": {
			conditions: []metav1.Condition{progressing, condition(setpoint.ConditionAccepted, metav1.ConditionFalse, 2, setpoint.ReasonResourceNotFound)},
			want:       "the spec is not accepted: ResourceNotFound: because",
		},
		"code with an error": {
			conditions: []metav1.Condition{progressing, condition(setpoint.ConditionAccepted, metav1.ConditionTrue, 2, setpoint.ReasonSourceOutdated)},
			want:       "the code is not in use: because", lasts: true,
		},
		"suspended": {conditions: []metav1.Condition{progressing}, suspend: true, want: "the controller is suspended", lasts: true},
		"paused":    {conditions: []metav1.Condition{progressing}, annotation: "true", want: "the controller is suspended", lasts: true},
	} {
		t.Run(what, func(t *testing.T) {
			var r rolloutController
			r.Metadata.Generation, r.Spec.Suspend, r.Status.Conditions = 2, c.suspend, c.conditions
			r.Metadata.Annotations = map[string]string{setpoint.AnnotationPaused: c.annotation}
			if got := r.unused(); got.why != c.want || got.lasts != c.lasts {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestChangedKeys(t *testing.T) {
	now := map[string]string{"a.js": "new", "b.js": "same", "later.js": "x"}
	then := map[string]string{"a.js": "old", "b.js": "same", "gone.js": "y"}
	if got := changedKeys(now, then); got != "a.js changed, gone.js changed, later.js removed" {
		t.Error(got)
	}
}

func TestShadowThatRetries(t *testing.T) {
	for want, shadow := range map[string]setpoint.RolloutShadowStatus{
		"fails now for 2 parents, which are compared again: Widget a: refused\n": {Retrying: 2, Failure: "Widget a: refused"},
		"fails now for 2 parents, which are compared again\n":                    {Retrying: 2, Failed: 1, Failure: "Widget a: refused"},
	} {
		var out strings.Builder
		writeShadow(&out, &setpoint.RolloutStatus{Total: 20, Shadow: &shadow})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
