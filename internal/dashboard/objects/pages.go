// Package objects has the pages of one object: what controllers did about it and why, what it owns, plans, and actions.
//
// Which runs explain what is decided in package timeline. To edit and delete objects belongs in package dashboard.
package objects

import (
	"html/template"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
)

// Pages are the pages of objects.
type Pages struct {
	// Programs returns the programs that a supervisor runs; nil without one.
	Programs func() []Program

	plans web.Limiter
	// changes has the object changes of runs as a user may see them.
	changes *cache.LRUExpireCache
}

// Plans call hooks and list objects, so few run at a time: maxPlans of one user and
// maxTotalPlans of all.
const (
	maxPlans      = 2
	maxTotalPlans = 8
)

// New returns the pages of objects.
func New() *Pages {
	p := &Pages{changes: cache.NewLRUExpireCache(maxCachedChanges)}
	p.plans.PerUser, p.plans.Total = maxPlans, maxTotalPlans
	return p
}

// Request is a request to a page of an object.
type Request struct {
	*web.Request
	pages *Pages
}

// Of returns a request to a page of an object.
func (p *Pages) Of(req *web.Request) *Request { return &Request{req, p} }

// Routes returns the routes of the pages.
func (p *Pages) Routes() []web.Route {
	const object = "/resources/{resource}/{namespace}/{name}"
	route := func(method, below string, handle func(*Request) error) web.Route {
		return web.Route{Pattern: method + " " + object + below, Handle: func(req *web.Request) error { return handle(p.Of(req)) }}
	}
	return []web.Route{
		route("GET", "", showObject),
		route("GET", "/timeline", showTimeline),
		route("GET", "/runs/{id}", showRun),
		route("GET", "/runs/{id}/case", downloadCase),
		route("GET", "/runs/{id}/file", downloadRun),
		route("GET", "/runs/{id}/request", downloadRequest),
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
