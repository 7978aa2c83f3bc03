package compile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Fault G11: the deletion guard is on by default in both groups. It can be configured or turned
// off.
func TestDeletionLimit(t *testing.T) {
	none, all := int32(0), int32(100)
	for _, c := range []struct {
		name      string
		got, want *plan.DeletionLimit
	}{
		{"by default", setpointDeletionLimit(api.DeletionGuard{}), plan.DefaultDeletionLimit()},
		{"set", setpointDeletionLimit(api.DeletionGuard{Mode: api.DeletionGuardEnabled, MaxDeletions: &none, MaxPercent: &all}), &plan.DeletionLimit{MaxPercent: 100}},
		{"disabled", setpointDeletionLimit(api.DeletionGuard{Mode: api.DeletionGuardDisabled, MaxDeletions: &none}), nil},
		{"Metacontroller's", metacontrollerDeletionLimit(Environment{}), plan.DefaultDeletionLimit()},
		{"Metacontroller's, turned off", metacontrollerDeletionLimit(Environment{DisableDeletionGuard: true}), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
