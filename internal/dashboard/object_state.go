package dashboard

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// stateView is the state of an object according to one controller.
type stateView struct {
	model.ObjectState
	// Declared is the manifest of the controller, if it has one.
	Declared *object.Ref
	Fault    *fault
	// Since is when the first of the consecutive failures happened.
	Since time.Time
	// LastFailure is the last failed run; nil if unknown.
	LastFailure *entry
	// Standby reports that another process does the work.
	Standby bool
}

// controllerKey identifies a controller across processes.
type controllerKey struct{ process, name string }

// managingProcesses returns the processes that manage the object.
func (req *request) managingProcesses(states []model.ObjectState) []processInfo {
	if len(states) == 0 {
		return nil
	}
	return slices.DeleteFunc(req.fetchProcesses(), func(t processInfo) bool {
		return !slices.ContainsFunc(states, func(c model.ObjectState) bool { return c.Process == t.Source.Name() })
	})
}

// indexControllers indexes the controllers of all processes.
func indexControllers(all []processInfo) map[controllerKey]model.Controller {
	found := map[controllerKey]model.Controller{}
	for _, each := range all {
		for _, c := range each.Controllers {
			found[controllerKey{c.Process, c.Name}] = c
		}
	}
	return found
}

// caveats returns what processes do not know.
func caveats(all []processInfo) (found []string) {
	for i := range all {
		if caveat := all[i].Process.Caveat(); caveat != "" {
			found = append(found, caveat)
		}
	}
	return found
}

func stateViews(states []model.ObjectState, all []processInfo, entries []entry) []stateView {
	controllers := indexControllers(all)
	views := make([]stateView, 0, len(states))
	for _, state := range states {
		view := stateView{ObjectState: state}
		view.Standby = slices.ContainsFunc(all, func(t processInfo) bool { return t.Source.Name() == state.Process && t.Process.IsStandby() })
		view.Declared = controllers[controllerKey{state.Process, state.Controller}].Declared
		if state.State == model.StateFailing && state.Error != "" {
			view.Fault = describeFault(state.Error, state.Fault, runFailedTitle)
			view.LastFailure, view.Since = lastFailure(entries, state), state.FailingSince
		}
		views = append(views, view)
	}
	return views
}

func lastFailure(entries []entry, state model.ObjectState) *entry {
	for i := range entries {
		e := &entries[i]
		if e.Controller == state.Controller && e.Process == state.Process {
			if e.Error == "" {
				return nil
			}
			return e
		}
	}
	return nil
}

// ControllerName returns the last part of the controller's name.
func (c stateView) ControllerName() string { return shortName(c.Controller) }
