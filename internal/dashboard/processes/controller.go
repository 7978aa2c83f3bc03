package processes

import (
	"cmp"
	"strings"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// controllerState is the state of a controller.
type controllerState string

// The states of a controller, sorted by severity.
const (
	// controllerNotAccepted: the condition Accepted is False.
	controllerNotAccepted controllerState = "Not accepted"
	// controllerNotReady: the condition Ready is False.
	controllerNotReady controllerState = "Not ready"
	// controllerDeletionsHeld: the deletion guard holds deletions.
	controllerDeletionsHeld controllerState = "Deletions held"
	// controllerFailing: the latest reconcile failed for some objects; their number is shown.
	controllerFailing controllerState = "failing"
	// controllerConflicting: some objects are Conflicting.
	controllerConflicting controllerState = "Conflicting"
	// controllerStarting: the condition Ready is Unknown, or not there yet.
	controllerStarting controllerState = "Starting"
	// controllerSuspended: the spec suspends the controller.
	controllerSuspended controllerState = "Suspended"
	// controllerStandby: another replica leads and has the state of the objects.
	controllerStandby controllerState = "Standby"
	// controllerReady: none of these.
	controllerReady controllerState = "Ready"
)

// ControllerStates returns all states of controllers, by severity.
func ControllerStates() []string {
	var all []string
	for _, state := range []controllerState{
		controllerState(Crashed), controllerState(Unreachable), controllerNotAccepted, controllerNotReady,
		controllerDeletionsHeld,
		controllerFailing, controllerConflicting, controllerStarting, controllerState(Ended), controllerSuspended, controllerStandby,
		controllerReady,
	} {
		all = append(all, string(state))
	}
	return all
}

// Health is the state of a controller as its badge shows it.
type Health struct {
	// Tone is the CSS class of the badge. Rank sorts controllers by severity. State is the label
	// without numbers.
	Tone, Label string
	Rank        int
	State       controllerState
	// Reason and Message come from the condition that decided.
	Reason, Message string
}

// healthOf derives the health from the conditions, worst first.
func healthOf(c *inspect.Controller) Health {
	accepted, ready := c.Condition("Accepted"), c.Ready()
	of := func(tone string, state controllerState, rank int, message inspect.Condition) Health {
		return Health{Tone: tone, Label: string(state), State: state, Rank: rank, Reason: message.Reason, Message: message.Message}
	}
	switch {
	case accepted.Status == "False":
		return of("bad", controllerNotAccepted, 0, accepted)
	case c.Suspended:
		return of("neutral", controllerSuspended, 4, ready)
	case ready.Status == "False":
		return of("bad", controllerNotReady, 1, ready)
	case ready.Status != "True":
		return of("wait", controllerStarting, 3, ready)
	case c.HeldDeletions > 0:
		return of("bad", controllerDeletionsHeld, 1, c.Condition("DeletionsHeld"))
	case c.Failing > 0:
		return Health{Tone: "warn", Label: format.Count(c.Failing) + " " + string(controllerFailing), State: controllerFailing, Rank: 2}
	case c.Conflicting > 0:
		return of("warn", controllerConflicting, 2, c.Condition(v1alpha1.ConditionConflicting))
	}
	return Health{Tone: "good", Label: string(controllerReady), State: controllerReady, Rank: 5}
}

// ControllerRow is a controller in a list.
type ControllerRow struct {
	*inspect.Controller
	// ShortName is the name without its group. TypeLabel names the kind of controller.
	ShortName, TypeLabel string
	Health               Health
	Plots                []Plot
	// Lost says why what is known of the controller is old; nil if it is not.
	Lost *Lost
	// Standby reports that another replica does the work.
	Standby bool
}

// NewControllerRow returns the row of a controller. Only the leader knows the health of a Go
// controller, so a standby process shows Standby, unless the controller runs in every replica.
// Declared controllers report their health in their status.
func NewControllerRow(c *inspect.Controller, t *Info) ControllerRow {
	row := ControllerRow{Controller: c, ShortName: ShortName(c.Name), TypeLabel: typeLabel(c), Health: healthOf(c),
		Plots: Plots(c.Series), Lost: t.Lost}
	row.Standby = t.Process.IsStandby() && !c.AllReplicas
	switch {
	case t.Lost != nil:
		row.Health = Health{Tone: t.Lost.Tone(), Label: string(t.Lost.State), State: controllerState(t.Lost.State), Message: t.Lost.Reason}
		if t.Lost.State == Ended {
			row.Health.Rank = 3
		}
	case row.Standby && c.Declared == nil && row.Health.Tone != "bad":
		row.Health = Health{Tone: "neutral", Label: string(controllerStandby), State: controllerStandby, Rank: 4,
			Message: t.Process.Caveat()}
	}
	return row
}

// Troubled returns the controllers of a kind that are not well: what they do for an object may fail as well.
func Troubled(all []Info, kind object.Kind) (found []ControllerRow) {
	for i := range all {
		for k := range all[i].Controllers {
			c := &all[i].Controllers[k]
			if row := NewControllerRow(c, &all[i]); c.Manages(kind) && (row.Health.Tone == "bad" || row.Health.State == controllerFailing) {
				found = append(found, row)
			}
		}
	}
	return found
}

// ShortName returns the name that the user gave a controller.
func ShortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// typeLabel returns a label such as "CompositeController · setpoint.dev" or "Go program
// guitar".
func typeLabel(c *inspect.Controller) string {
	if c.Declared == nil {
		return "Go program " + c.Process
	}
	return strings.TrimSuffix(c.Declared.Kind.Kind+" · "+cmp.Or(c.Declared.Group, c.Declared.Version), " · ")
}
