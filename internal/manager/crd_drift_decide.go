package manager

import (
	"fmt"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// crdState is a CRD of controllers as it is stored.
type crdState struct {
	name, version string
	// manager is the field manager that changed it last, Setpoint aside.
	manager string
	// current says that it is as this Setpoint wants it.
	current bool
}

// crdCorrections is what was done about one CRD so far.
type crdCorrections struct {
	// skip leaves it as it is.
	skip bool
	// applied is the version that Setpoint made.
	applied string
	// corrected are the managers after which it was applied again: each once.
	corrected map[string]bool
}

// decide says what to make known of a CRD, and whether to apply it again. Each
// manager's change is put right once: one that changes it back means it, and two
// that undo each other's work help no user.
func (u *crdCorrections) decide(now crdState) (condition conditionState, correct bool) {
	switch {
	case now.current:
		return crdCurrentCondition(), false
	case u.skip:
		return conditionState{false, setpoint.ReasonCRDSkipped, fmt.Sprintf(
			"the schema of CRD %s, last changed by %q, has no place for conditions, and --crds=skip leaves it: the status shows none, 'setpoint get' does", now.name, now.manager)}, false
	case u.corrected[now.manager]:
		return conditionState{false, setpoint.ReasonCRDChangedBack, fmt.Sprintf(
			"the field manager %q changed CRD %s again after Setpoint had applied its own, and Setpoint leaves it: the status may lack fields; "+
				"take the CRD out of what %[1]s applies, or start Setpoint with --crds=skip", now.manager, now.name)}, false
	}
	return crdCurrentCondition(), true
}

// correct notes that the CRD was applied again.
func (u *crdCorrections) correct(now crdState) {
	if u.corrected == nil {
		u.corrected = map[string]bool{}
	}
	u.corrected[now.manager] = true
}
