package manager

import (
	"fmt"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// crdState is the observed state of a controller CRD.
type crdState struct {
	name, version string
	// manager is the last field manager other than Setpoint.
	manager string
	// current reports whether the CRD is up to date.
	current bool
}

// crdCorrections records what was done about one CRD.
type crdCorrections struct {
	// skip disables corrections.
	skip bool
	// applied is the version that Setpoint applied.
	applied string
	// corrected are the managers whose change was corrected, each once.
	corrected map[string]bool
}

// decide returns the condition of a CRD and whether to apply it again. It corrects the
// change of each manager once: two managers must not fight over a CRD.
func (u *crdCorrections) decide(now crdState) (condition conditionState, correct bool) {
	switch {
	case now.current:
		return crdCurrentCondition(), false
	case u.skip:
		return conditionState{false, setpoint.ReasonCRDSkipped, fmt.Sprintf(
			"the schema of CRD %s, last changed by %q, has no conditions, and --crds=skip keeps it: the status shows none, 'setpoint get' does", now.name, now.manager)}, false
	case u.corrected[now.manager]:
		return conditionState{false, setpoint.ReasonCRDChangedBack, fmt.Sprintf(
			"the field manager %q changed CRD %s again after Setpoint applied its own, so Setpoint keeps the change: the status may lack fields; "+
				"remove the CRD from what %[1]s applies, or start Setpoint with --crds=skip", now.manager, now.name)}, false
	}
	return crdCurrentCondition(), true
}

// correct records that the CRD was applied again.
func (u *crdCorrections) correct(now crdState) {
	if u.corrected == nil {
		u.corrected = map[string]bool{}
	}
	u.corrected[now.manager] = true
}
