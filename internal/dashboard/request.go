package dashboard

import (
	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// pages is what the pages keep between requests.
type pages struct {
	streams web.Limiter
	objects *objects.Pages
}

// request is a request to one of the pages.
type request struct {
	*web.Request
	*pages
}

// controller returns the controller named in the URL.
func (req *request) controller() (inspect.Source, *inspect.Controller, error) {
	t, c, err := req.controllerInfo()
	if err != nil {
		return nil, nil, err
	}
	return t.Source, c, nil
}

// controllerInfo returns the controller named in the URL, and its process.
func (req *request) controllerInfo() (*processes.Info, *inspect.Controller, error) {
	process, name := req.Path("process"), web.Unslug(req.Path("controller"))
	source, err := req.Source(process)
	if err != nil {
		return nil, nil, err
	}
	t, err := req.Processes.FetchOne(req.Context(), source)
	if err != nil {
		return nil, nil, err
	}
	all := t.Controllers
	for i := range all {
		if all[i].Name == name && req.CanSee(&all[i]) {
			return &t, &all[i], nil
		}
	}
	if err := req.AccessError(); err != nil {
		return nil, nil, err
	}
	return nil, nil, web.NotFound("Process %s runs no controller %s, or you cannot get it.", process, name)
}
