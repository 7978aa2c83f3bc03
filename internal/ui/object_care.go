package ui

import (
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
	// Since is when it began to fail like this, as far back as is known.
	Since time.Time
	// Last is the run that failed last; nil if it is not known.
	Last *entry
}

// controllerKey tells controllers of all processes apart.
type controllerKey struct{ process, name string }

// declared are the controllers that care for something.
func (v *visit) declared(cares []inspect.Care) map[controllerKey]inspect.Controller {
	found := map[controllerKey]inspect.Controller{}
	if len(cares) == 0 {
		return found
	}
	for _, each := range v.ask() {
		for _, c := range each.Controllers {
			found[controllerKey{c.Process, c.Name}] = c
		}
	}
	return found
}

func careViews(cares []inspect.Care, controllers map[controllerKey]inspect.Controller, entries []entry) []careView {
	views := make([]careView, 0, len(cares))
	for _, care := range cares {
		view := careView{Care: care}
		view.Declared = controllers[controllerKey{care.Process, care.Controller}].Declared
		if care.State == inspect.Failing && care.Error != "" {
			view.Fault = explain(care.Error, care.Fault, runFailed)
			view.Last = lastFailure(entries, care)
		}
		if view.Last != nil {
			view.Since = view.Last.since()
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
