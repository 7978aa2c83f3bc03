package rollout

import (
	"strings"
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

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
