package rollout

import (
	"strings"
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

func TestUndoTarget(t *testing.T) {
	stored := []logicRevision{}
	for i, name := range []string{"complete", "bad", "former", "first"} {
		stored = append(stored, logicRevision{Revision: int64(4 - i), Metadata: revisionMeta{Name: name}})
	}
	for what, c := range map[string]struct {
		status   setpoint.RolloutStatus
		present  string
		revision int64
		want     string
		err      string
	}{
		"complete":                  {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, present: "complete", want: "former"},
		"another one in the spec":   {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, want: "complete"},
		"an old one in the spec":    {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, present: "first", want: "complete"},
		"first version":             {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "first"}, present: "first", err: "there is no version before the present one"},
		"in the middle":             {status: setpoint.RolloutStatus{Phase: setpoint.RolloutStepping, From: "former", To: "complete", Previous: "first"}, want: "former"},
		"taken back":                {status: setpoint.RolloutStatus{Phase: setpoint.RolloutRolledBack, From: "former", To: "bad", Previous: "first"}, want: "former"},
		"named":                     {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete", Previous: "former"}, revision: 3, want: "bad"},
		"named, but not stored":     {status: setpoint.RolloutStatus{Phase: setpoint.RolloutComplete, To: "complete"}, revision: 9, err: "has no revision 9"},
		"the one before is missing": {status: setpoint.RolloutStatus{Phase: setpoint.RolloutStepping, From: "gone", To: "complete", Namespace: "system"}, err: "no ControllerRevision system/gone"},
	} {
		t.Run(what, func(t *testing.T) {
			r := &rolloutRun{rolloutFlags: &rolloutFlags{revision: c.revision}}
			r.controller.Status.Rollout = &c.status
			got, err := r.undoTarget(stored, c.present)
			if got.Metadata.Name != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v", got.Metadata.Name, err)
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
