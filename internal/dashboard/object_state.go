package dashboard

import (
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// stateView is how an object is doing in the care of one controller.
type stateView struct {
	model.ObjectState
	// Declared is the object that declares the controller, if one does.
	Declared *model.Ref
	Fault    *fault
	// Since is when the first of its failures in a row was.
	Since time.Time
	// LastFailure is the run that failed last; nil if it is not known.
	LastFailure *entry
	// Standby says that another process does the work of the one that says this.
	Standby bool
}

// controllerKey tells controllers of all processes apart.
type controllerKey struct{ process, name string }

// managingProcesses are what the processes say that care for something.
func (req *request) managingProcesses(states []model.ObjectState) []processInfo {
	if len(states) == 0 {
		return nil
	}
	return slices.DeleteFunc(req.fetchProcesses(), func(t processInfo) bool {
		return !slices.ContainsFunc(states, func(c model.ObjectState) bool { return c.Process == t.Source.Name() })
	})
}

// indexControllers are the controllers of processes.
func indexControllers(all []processInfo) map[controllerKey]model.Controller {
	found := map[controllerKey]model.Controller{}
	for _, each := range all {
		for _, c := range each.Controllers {
			found[controllerKey{c.Process, c.Name}] = c
		}
	}
	return found
}

// caveats say what processes cannot tell.
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

// ControllerName is the last part of the controller's name, which is its own.
func (c stateView) ControllerName() string { return shortControllerName(c.Controller) }

func shortControllerName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
