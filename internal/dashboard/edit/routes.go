package edit

import "github.com/setpoint-dev/setpoint/internal/dashboard/web"

// Routes returns the routes of the pages.
func (p *Pages) Routes() []web.Route {
	route := func(pattern string, draft bool, handle func(*request) error) web.Route {
		return web.Route{Pattern: pattern, Draft: draft, Handle: func(req *web.Request) error { return handle(&request{req, p}) }}
	}
	const kind, object = "/resources/{resource}", "/resources/{resource}/{namespace}/{name}"
	return []web.Route{
		route("GET "+kind+"/new", false, showCreate),
		route("POST "+kind+"/new", true, createObject),
		route("GET "+object+"/edit", false, showEdit),
		route("POST "+object+"/edit", true, saveObject),
		route("GET "+object+"/delete", false, showDelete),
		route("POST "+object+"/delete", false, deleteObject),
	}
}
