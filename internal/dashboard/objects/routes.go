package objects

import (
	"html/template"

	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
)

// Routes returns the routes of the pages.
func (p *Pages) Routes() []web.Route {
	const object = "/resources/{resource}/{namespace}/{name}"
	route := func(method, below string, handle func(*Request) error) web.Route {
		return web.Route{Pattern: method + " " + object + below, Handle: func(req *web.Request) error { return handle(p.Of(req)) }}
	}
	return []web.Route{
		route("GET", "", func(req *Request) error { return req.showObject(firstEntries) }),
		route("GET", "/timeline", func(req *Request) error { return req.showObject(maxRuns) }),
		route("GET", "/runs/{id}", showRun),
		route("GET", "/runs/{id}/case", downloadCase),
		route("GET", "/runs/{id}/file", downloadRun),
		route("GET", "/runs/{id}/compare", compareRuns),
		route("GET", "/yaml", showObjectYAML),
		route("POST", "/plan", showPlan),
		route("POST", "/annotate", annotateObject),
	}
}

// Functions returns the functions of templates that show runs.
func Functions() template.FuncMap {
	return template.FuncMap{"significantFields": significantFields, "firstFields": FirstFields, "sign": signOf}
}
