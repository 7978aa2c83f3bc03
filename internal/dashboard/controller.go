package dashboard

import (
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// controllerPage is the data of a controller's page.
type controllerPage struct {
	controllerRow
	Objects *objectList
	Actions []action
	// Caveat says what the process does not know about the controller.
	Caveat string
}

func showController(req *request) error {
	source, c, err := req.controller()
	if err != nil {
		return err
	}
	req.redactController(c)
	process, err := req.processOf(source)
	if err != nil {
		return err
	}
	row := newControllerRow(c, &process)
	data := &controllerPage{controllerRow: row, Caveat: process.CaveatFor(c), Actions: req.controllerActions(c)}
	if data.Objects, err = req.listObjects(source, c); err != nil {
		return err
	}
	return req.render(page{Name: "controller", Title: row.ShortName, Section: "overview", Data: data})
}

// controller returns the controller named in the URL.
func (req *request) controller() (model.Source, *model.Controller, error) {
	process, name := req.path("process"), unslug(req.path("controller"))
	source, err := req.source(process)
	if err != nil {
		return nil, nil, err
	}
	all, err := req.controllersOf(source)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if all[i].Name == name && req.canSee(&all[i]) {
			return source, &all[i], nil
		}
	}
	if err := req.accessErrors.first(); err != nil {
		return nil, nil, err
	}
	return nil, nil, notFound("Process %s runs no controller %s, or you may not read it.", process, name)
}
