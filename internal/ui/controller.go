package ui

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// controllerPage is all of one controller.
type controllerPage struct {
	controllerRow
	Objects            *objectList
	Suspend, Reconcile ability
	// Caveat says what its process cannot tell of it.
	Caveat string
	// Since is when it became as it is; zero where nobody knows.
	Since time.Time
}

// ability is something that can be done on a page, or the reason why it cannot.
type ability struct {
	// At is where its form is sent.
	At, Label string
	Can       bool
	Why       string
}

func showController(v *visit) error {
	source, c, err := v.controller()
	if err != nil {
		return err
	}
	v.discreet(c)
	process, err := v.processOf(source)
	if err != nil {
		return err
	}
	row := rowOf(c, &process)
	data := &controllerPage{controllerRow: row, Caveat: process.CaveatOn(c), Suspend: v.suspending(c), Reconcile: v.reconciling(c), Since: c.Ready().Since}
	if data.Objects, err = v.objects(source, c); err != nil {
		return err
	}
	return v.render(page{Name: "controller", Title: row.Short, Section: "overview", Data: data})
}

// controller is the one that the URL names.
func (v *visit) controller() (inspect.Source, *inspect.Controller, error) {
	process, name := v.path("process"), unslug(v.path("controller"))
	source, err := v.source(process)
	if err != nil {
		return nil, nil, err
	}
	all, err := v.controllersOf(source)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if all[i].Name == name && v.maySee(&all[i]) {
			return source, &all[i], nil
		}
	}
	if err := v.doubt.reason(); err != nil {
		return nil, nil, err
	}
	return nil, nil, missing("The process %s runs no controller %s that you may see.", process, name)
}
