package dashboard

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// stateView is the state of an object according to one controller.
type stateView struct {
	inspect.ObjectState
	// Declared is the manifest of the controller, if it has one.
	Declared *object.Ref
	Fault    *fault
	// FailureURL is the page of the last run, which failed; "" if it is no longer in the history.
	FailureURL string
	// Incident is what happened since the last good run; nil if the object does not fail.
	Incident *incident
	// Standby reports that another process does the work. Lost says why the process does not
	// respond; nil if it does.
	Standby bool
	Lost    *lostProcess
}

// Label returns the state as the page shows it. The process of a standby, of a suspended
// controller, or that has ended knows of none.
func (c stateView) Label() string {
	switch {
	case c.Lost != nil:
		return string(c.Lost.State)
	case c.Suspended:
		return string(stateSuspended)
	case c.Standby && c.State == inspect.StateUnknown:
		return string(stateStandby)
	}
	return string(c.State)
}

// managingProcesses returns the processes that manage the object.
func (req *request) managingProcesses(states []inspect.ObjectState) []processInfo {
	if len(states) == 0 {
		return nil
	}
	return slices.DeleteFunc(req.fetchProcesses(), func(t processInfo) bool {
		return !slices.ContainsFunc(states, func(c inspect.ObjectState) bool { return c.Process == t.Source.Name() })
	})
}

// controllerOf returns the controller of a state; the zero Controller if it is unknown.
func controllerOf(state *inspect.ObjectState, all []processInfo) inspect.Controller {
	for _, each := range all {
		for _, c := range each.Controllers {
			if c.Process == state.Process && c.Name == state.Controller {
				return c
			}
		}
	}
	return inspect.Controller{}
}

// caveats returns what processes do not know.
func caveats(all []processInfo) (found []string) {
	for i := range all {
		if caveat := all[i].Process.Caveat(); caveat != "" && all[i].Lost == nil {
			found = append(found, caveat)
		}
	}
	return found
}

// stateViews returns the states as a page shows them. The runs are all of the object, newest first.
func (s *pageObject) stateViews(states []inspect.ObjectState, all []processInfo, runs []inspect.Run) []stateView {
	views := make([]stateView, 0, len(states))
	for _, state := range states {
		view := stateView{ObjectState: state}
		for i := range all {
			if all[i].Source.Name() == state.Process {
				view.Lost = all[i].Lost
			}
		}
		view.Standby = slices.ContainsFunc(all, func(t processInfo) bool {
			return t.Source.Name() == state.Process &&
				t.Process.IsStandby()
		})
		view.Declared = controllerOf(&state, all).Declared
		if state.State == inspect.StateFailing && state.Error != "" {
			view.Fault = describeFault(state.Error, state.Fault, runFailedTitle)
			view.FailureURL = s.failureURL(&state, runs)
		}
		views = append(views, view)
	}
	return views
}

// failureURL returns the page of the last run of a controller if it failed; "" if it did not.
// Reviews are no runs.
func (s *pageObject) failureURL(state *inspect.ObjectState, runs []inspect.Run) string {
	for i := range runs {
		run := &runs[i]
		if run.Controller != state.Controller || run.Process != state.Process || run.Review() != nil {
			continue
		}
		if run.Error == "" {
			return ""
		}
		return runURL(s, run.Process, run.ID)
	}
	return ""
}

// ControllerName returns the last part of the controller's name.
func (c stateView) ControllerName() string { return shortName(c.Controller) }
