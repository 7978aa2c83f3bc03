package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// careView is how an object is doing in the care of one controller.
type careView struct {
	inspect.Care
	// Declared is the object that declares the controller, if one does.
	Declared *inspect.Ref
	Fault    *fault
	// Since is when the first of its failures in a row was.
	Since time.Time
	// Last is the run that failed last; nil if it is not known.
	Last *entry
	// Elsewhere says that another process does the work of the one that says this.
	Elsewhere bool
}

// controllerKey tells controllers of all processes apart.
type controllerKey struct{ process, name string }

// carers are what the processes say that care for something.
func (v *visit) carers(cares []inspect.Care) []told {
	if len(cares) == 0 {
		return nil
	}
	return slices.DeleteFunc(v.ask(), func(t told) bool {
		return !slices.ContainsFunc(cares, func(c inspect.Care) bool { return c.Process == t.Source.Name() })
	})
}

// declared are the controllers of processes.
func declared(all []told) map[controllerKey]inspect.Controller {
	found := map[controllerKey]inspect.Controller{}
	for _, each := range all {
		for _, c := range each.Controllers {
			found[controllerKey{c.Process, c.Name}] = c
		}
	}
	return found
}

// caveats say what processes cannot tell.
func caveats(all []told) (found []string) {
	for i := range all {
		if caveat := all[i].Process.Caveat(); caveat != "" {
			found = append(found, caveat)
		}
	}
	return found
}

func careViews(cares []inspect.Care, all []told, entries []entry) []careView {
	controllers := declared(all)
	views := make([]careView, 0, len(cares))
	for _, care := range cares {
		view := careView{Care: care}
		view.Elsewhere = slices.ContainsFunc(all, func(t told) bool { return t.Source.Name() == care.Process && t.Process.StandsBy() })
		view.Declared = controllers[controllerKey{care.Process, care.Controller}].Declared
		if care.State == inspect.Failing && care.Error != "" {
			view.Fault = explain(care.Error, care.Fault, runFailed)
			view.Last, view.Since = lastFailure(entries, care), care.FailingSince
		}
		views = append(views, view)
	}
	return views
}

func lastFailure(entries []entry, care inspect.Care) *entry {
	for i := range entries {
		e := &entries[i]
		if e.Controller == care.Controller && e.Process == care.Process {
			if e.Error == "" {
				return nil
			}
			return e
		}
	}
	return nil
}

// ControllerName is the last part of the controller's name, which is its own.
func (c careView) ControllerName() string { return shortController(c.Controller) }

func shortController(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
