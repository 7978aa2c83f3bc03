package host

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

// crdUpkeep is what was done about one CRD so far.
type crdUpkeep struct {
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
func (u *crdUpkeep) decide(now crdState) (verdict finding, correct bool) {
	switch {
	case now.current:
		return currentCRD(), false
	case u.skip:
		return finding{false, setpoint.ReasonCRDSkipped, fmt.Sprintf(
			"the schema of CRD %s, last changed by %q, has no place for conditions, and --crds=skip leaves it: the status shows none, 'setpoint get' does", now.name, now.manager)}, false
	case u.corrected[now.manager]:
		return finding{false, setpoint.ReasonCRDChangedBack, fmt.Sprintf(
			"the field manager %q changed CRD %s again after Setpoint had applied its own, and Setpoint leaves it: the status may lack fields; "+
				"take the CRD out of what %[1]s applies, or start Setpoint with --crds=skip", now.manager, now.name)}, false
	}
	return currentCRD(), true
}

// correct notes that the CRD was applied again.
func (u *crdUpkeep) correct(now crdState) {
	if u.corrected == nil {
		u.corrected = map[string]bool{}
	}
	u.corrected[now.manager] = true
}
