package ui

import "net/http"

// route is one thing that can be asked for. The functions are in files named after
// their pages.
type route struct {
	// pattern is that of http.ServeMux, with the method.
	pattern string
	handle  func(*visit) error
	// public routes are open to who has not signed in. They see to it themselves that
	// what is sent to them comes from here.
	public bool
	// draft routes are sent an object while it is entered, which may be large: draft
	// refuses who may not store it, before what was sent is read.
	draft func(*visit) error
}

// routes are all there are.
func routes() []route {
	return []route{
		{pattern: "GET /{$}", handle: showOverview},
		{pattern: "GET /controllers/{process}/{controller}", handle: showController},
		{pattern: "POST /controllers/{process}/{controller}/suspend", handle: suspendController},
		{pattern: "POST /controllers/{process}/{controller}/resume", handle: resumeController},
		{pattern: "POST /controllers/{process}/{controller}/reconcile", handle: reconcileAll},
		{pattern: "GET /live", handle: followChanges},
		{pattern: "GET /resources", handle: showResources},
		{pattern: "GET /resources/{resource}", handle: showKind},
		{pattern: "GET /resources/{resource}/new", handle: showCreate},
		{pattern: "POST /resources/{resource}/new", handle: createObject, draft: mayCreateSome},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/edit", handle: showEdit},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/edit", handle: saveObject, draft: mayEdit},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/delete", handle: showDelete},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/delete", handle: deleteObject},
		{pattern: "GET /signin", handle: askToSignIn, public: true},
		{pattern: "POST /signin", handle: signIn, public: true},
		{pattern: "POST /signout", handle: signOut},
		{pattern: "GET /here", handle: stay},
		{pattern: "GET /resources/{resource}/{namespace}/{name}", handle: showObject},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/timeline", handle: showTimeline},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/runs/{id}", handle: showRun},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/yaml", handle: showObjectYAML},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/plan", handle: showPlan},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/ask", handle: askController},
		{pattern: "GET /assets/{hash}/{file...}", handle: serveAsset, public: true},
		{pattern: "GET /favicon.ico", handle: serveFavicon, public: true},
		{pattern: "GET /", handle: lost},
	}
}

// mux leads each request to its route.
func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	for _, each := range routes() {
		mux.HandleFunc(each.pattern, func(w http.ResponseWriter, r *http.Request) { s.visit(each, w, r) })
	}
	return mux
}

// visit answers one request: with what the route makes of it, or with a page that
// says why not.
func (s *Server) visit(to route, w http.ResponseWriter, r *http.Request) {
	v := &visit{Server: s, w: w, r: r}
	if err := v.enter(to); err != nil {
		v.fail(err)
		return
	}
	done, err := v.receive(to)
	if err != nil {
		v.fail(err)
		return
	}
	defer done()
	if v.live() && v.visitor != nil {
		defer s.paces.begin(v.visitor.User.Name, r.URL.Path)()
	}
	if err := to.handle(v); err != nil {
		v.fail(err)
	}
}
