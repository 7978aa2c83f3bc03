package controllers

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault G11: held deletions are in the status, with a command that confirms them. Shortly
// after a restart the previous status stays.
func TestHeldDeletionsInStatus(t *testing.T) {
	var status setpoint.ControllerStatus
	setDeletionsHeld(&status, "compositecontroller.setpoint.dev/tenants", 3, controller.Health{})
	if len(status.Conditions) != 0 {
		t.Fatalf("conditions without held deletions: %+v", status.Conditions)
	}
	health := controller.Health{Held: controller.HeldDeletions{Count: 12, Parents: 6, Value: "0123456789abcdef"}}
	setDeletionsHeld(&status, "compositecontroller.setpoint.dev/tenants", 3, health)
	for _, kind := range []string{setpoint.ConditionDeletionsHeld, setpoint.ConditionStalled} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil || c.Status != "True" || c.Reason != setpoint.ReasonTooManyDeletions || c.ObservedGeneration != 3 {
			t.Fatalf("%s is %+v", kind, c)
		}
		for _, want := range []string{"12 deletions of children of 6 parents", "setpoint allow-deletions compositecontroller.setpoint.dev/tenants", "0123456789abcdef"} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("%s lacks %q: %s", kind, want, c.Message)
			}
		}
	}
	if held := status.HeldDeletions; held == nil || *held != (setpoint.HeldDeletions{Count: 12, Parents: 6, Value: "0123456789abcdef"}) {
		t.Errorf("held are %+v", held)
	}
	previous := *status.DeepCopy()
	setDeletionsHeld(&status, "tenants", 3, controller.Health{HeldUnknown: true})
	if !HasHeldDeletions(status.Conditions) || status.HeldDeletions == nil {
		t.Error("a restart drops held deletions")
	}
	setDeletionsHeld(&status, "tenants", 3, controller.Health{})
	if HasHeldDeletions(status.Conditions) || meta.IsStatusConditionTrue(status.Conditions, setpoint.ConditionStalled) {
		t.Errorf("still held: %+v", status.Conditions)
	}
	change := must.Get(statusPatch(&object.Object{}, previous, status)).In(t)
	patch, err := json.Marshal(change)
	if err != nil || strings.Count(string(patch), "heldDeletions") != 1 || !strings.Contains(string(patch), `"heldDeletions":null`) {
		t.Errorf("the patch keeps held deletions: %s, %v", patch, err)
	}
}
