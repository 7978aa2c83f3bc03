package processes

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The states of a controller, beside those of its process. It is Conflicting, too, if some of its objects are.
const (
	// controllerNotAccepted: the condition Accepted is False.
	controllerNotAccepted inspect.State = "Not accepted"
	// controllerNotReady: the condition Ready is False.
	controllerNotReady inspect.State = "Not ready"
	// controllerDeletionsHeld: the deletion guard holds deletions.
	controllerDeletionsHeld inspect.State = "Deletions held"
	// controllerFailing: the latest reconcile failed for some objects; their number is shown.
	controllerFailing inspect.State = "failing"
	// controllerStarting: the condition Ready is Unknown, or not there yet.
	controllerStarting inspect.State = "Starting"
	// controllerReady: none of these.
	controllerReady inspect.State = "Ready"
)

// controllerStates are all states, by severity, with the CSS classes of their badges.
var controllerStates = []struct {
	inspect.State
	tone string
}{
	{Crashed, "bad"}, {Unreachable, "bad"}, {controllerNotAccepted, "bad"}, {controllerNotReady, "bad"}, {controllerDeletionsHeld, "bad"},
	{controllerFailing, "warn"}, {inspect.StateConflicting, "warn"}, {controllerStarting, "wait"}, {Ended, "neutral"},
	{Suspended, "neutral"}, {Standby, "neutral"}, {controllerReady, "good"},
}

// ControllerStates returns all states of controllers, by severity.
func ControllerStates() (all []string) {
	for _, each := range controllerStates {
		all = append(all, string(each.State))
	}
	return all
}

// Health is the state of a controller as its badge shows it.
type Health struct {
	// Tone is the CSS class of the badge. Rank sorts controllers by severity. State is the label without numbers.
	Tone, Label string
	Rank        int
	State       inspect.State
	// Reason and Message come from the condition that decided.
	Reason, Message string
}

func newHealth(state inspect.State, by inspect.Condition) Health {
	h := Health{Label: string(state), State: state, Reason: by.Reason, Message: by.Message}
	h.Rank = slices.Index(ControllerStates(), h.Label)
	h.Tone = controllerStates[h.Rank].tone
	return h
}

// healthOf derives the health from the conditions, worst first.
func healthOf(c *inspect.Controller) Health {
	accepted, ready := c.Condition("Accepted"), c.Ready()
	switch {
	case accepted.Status == "False":
		return newHealth(controllerNotAccepted, accepted)
	case c.Suspended:
		return newHealth(Suspended, ready)
	case ready.Status == "False":
		return newHealth(controllerNotReady, ready)
	case ready.Status != "True":
		return newHealth(controllerStarting, ready)
	case c.HeldDeletions > 0:
		return newHealth(controllerDeletionsHeld, c.Condition("DeletionsHeld"))
	case c.Failing > 0:
		h := newHealth(controllerFailing, inspect.Condition{})
		h.Label = format.Count(c.Failing) + " " + h.Label
		return h
	case c.Conflicting > 0:
		return newHealth(inspect.StateConflicting, c.Condition(v1alpha1.ConditionConflicting))
	}
	return newHealth(controllerReady, inspect.Condition{})
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
		row.Health = newHealth(t.Lost.State, inspect.Condition{Message: t.Lost.Reason})
	case row.Standby && c.Declared == nil && row.Health.Tone != "bad":
		row.Health = newHealth(Standby, inspect.Condition{Message: t.Process.Caveat()})
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

// typeLabel returns a label such as "CompositeController · setpoint.dev" or "Go program guitar".
func typeLabel(c *inspect.Controller) string {
	if c.Declared == nil {
		return "Go program " + c.Process
	}
	return strings.TrimSuffix(c.Declared.Kind.Kind+" · "+cmp.Or(c.Declared.Group, c.Declared.Version), " · ")
}
