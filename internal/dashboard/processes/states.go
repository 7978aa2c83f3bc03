package processes

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The states of objects that no process reconciles. Only the dashboard has them: a process
// reports StateUnknown.
const (
	// Suspended says that the controller of the object is suspended: it watches nothing.
	Suspended inspect.State = "Suspended"
	// Standby says that another replica leads, and reconciles the object.
	Standby inspect.State = "Standby"
)

// Unwatched returns the state of objects whose controller watches nothing; "" if it does.
func Unwatched(t *Info, c *inspect.Controller) inspect.State {
	switch {
	case c.Suspended:
		return Suspended
	case t.Lost != nil:
		return t.Lost.State
	}
	return ""
}

// ObjectStates returns the states to filter by.
func ObjectStates() []string {
	all := append(inspect.States(), Standby, Suspended, Crashed, Unreachable, Ended)
	return lists.Map(all, func(s inspect.State) string { return string(s) })
}

// ShowStandby shows states that a standby does not know as such.
func ShowStandby(all []inspect.ObjectState) {
	for i := range all {
		if all[i].State == inspect.StateUnknown {
			all[i].State = Standby
		}
	}
}

// Managing returns the controllers that manage a kind.
func Managing(all []Info, kind object.Kind) []inspect.Controller {
	return lists.FlatMap(all, func(t Info) []inspect.Controller {
		return lists.Filter(t.Controllers, func(c inspect.Controller) bool { return c.Manages(kind) })
	})
}

// MayManage reports whether a process that does not respond may have a controller of a kind.
func (t *Info) MayManage(kind object.Kind) bool {
	manages := func(c inspect.Controller) bool { return c.Manages(kind) }
	return t.Lost != nil && (len(t.Controllers) == 0 || slices.ContainsFunc(t.Controllers, manages))
}

// Visible returns processes with the controllers that a user may see.
func Visible(all []Info, can inspect.AccessCheck) []Info {
	found := make([]Info, len(all))
	for i, t := range all {
		found[i] = t
		found[i].Controllers = userclient.FilterAllowed(t.Controllers, func(c *inspect.Controller) bool {
			if !inspect.CanView(c, can) {
				return false
			}
			*c = inspect.RedactController(*c, can)
			return true
		})
	}
	return found
}

// planner is a controller that may plan for an object, in its process.
type planner struct {
	Source     inspect.Source
	Controller inspect.Controller
}

// PlannersOf returns the controllers of a kind that the user may see, each in one process, and
// the number of the others.
func PlannersOf(known []Info, kind object.Kind, can inspect.AccessCheck) (all []planner, hidden int) {
	seen := map[string]bool{}
	for _, t := range leadersFirst(known) {
		if t.Lost != nil {
			continue
		}
		for _, c := range t.Controllers {
			switch {
			case seen[c.Name] || c.AllReplicas || !c.Manages(kind):
				continue
			case inspect.CanView(&c, can):
				all = append(all, planner{t.Source, c})
			default:
				hidden++
			}
			seen[c.Name] = true
		}
	}
	return all, hidden
}

// leadersFirst sorts processes: a leader knows more than a standby.
func leadersFirst(known []Info) []Info {
	leads := func(t Info) bool { return !t.Process.IsStandby() }
	return append(lists.Filter(known, leads), lists.Filter(known, func(t Info) bool { return !leads(t) })...)
}
