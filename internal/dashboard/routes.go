package dashboard

import "net/http"

// route is one route. Handlers are in files named after their pages.
type route struct {
	// pattern is a pattern of http.ServeMux with a method.
	pattern string
	handle  func(*request) error
	// public routes need no session. They check the origin of forms themselves.
	public bool
	// draft routes receive an object, which may be large. They read the form themselves.
	draft bool
}

// routes returns all routes.
func routes() []route {
	return []route{
		{pattern: "GET /{$}", handle: showOverview},
		{pattern: "GET /controllers/{process}/{controller}", handle: showController},
		{pattern: "GET /controllers/{process}/{controller}/reviews", handle: showReviews},
		{pattern: "GET /controllers/{process}/{controller}/reviews/{id}", handle: showReview},
		{pattern: "POST /controllers/{process}/{controller}/suspend", handle: suspendController},
		{pattern: "POST /controllers/{process}/{controller}/resume", handle: resumeController},
		{pattern: "POST /controllers/{process}/{controller}/reconcile", handle: reconcileAll},
		{pattern: "POST /controllers/{process}/{controller}/rollout", handle: changeRollout},
		{pattern: "GET /live", handle: streamEvents},
		{pattern: "GET /palette", handle: showPalette},
		{pattern: "GET /resources", handle: showResources},
		{pattern: "GET /resources/{resource}", handle: showKind},
		{pattern: "GET /resources/{resource}/new", handle: showCreate},
		{pattern: "POST /resources/{resource}/new", handle: createObject, draft: true},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/edit", handle: showEdit},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/edit", handle: saveObject, draft: true},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/delete", handle: showDelete},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/delete", handle: deleteObject},
		{pattern: "GET /signin", handle: showSignIn, public: true},
		{pattern: "POST /signin", handle: signIn, public: true},
		{pattern: "POST /signout", handle: signOut},
		{pattern: "GET /session", handle: extendSession},
		{pattern: "GET /resources/{resource}/{namespace}/{name}", handle: showObject},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/timeline", handle: showTimeline},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/runs/{id}", handle: showRun},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/runs/{id}/case", handle: downloadCase},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/runs/{id}/file", handle: downloadRun},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/runs/{id}/request", handle: downloadRequest},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/runs/{id}/compare", handle: compareRuns},
		{pattern: "GET /resources/{resource}/{namespace}/{name}/yaml", handle: showObjectYAML},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/plan", handle: showPlan},
		{pattern: "POST /resources/{resource}/{namespace}/{name}/annotate", handle: annotateObject},
		{pattern: "GET /assets/{hash}/{file...}", handle: serveAsset, public: true},
		{pattern: "GET /favicon.ico", handle: serveFavicon, public: true},
		{pattern: "GET /", handle: pageNotFound},
	}
}

// mux returns the handler of all routes.
func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	for _, each := range routes() {
		mux.HandleFunc(each.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(each, w, r) })
	}
	return mux
}

// serve handles one request, and renders its error.
func (s *Server) serve(to route, w http.ResponseWriter, r *http.Request) {
	req := &request{Server: s, w: w, r: r}
	if err := req.authenticate(to); err != nil {
		req.renderError(err)
		return
	}
	if r.Method == http.MethodPost && !to.public && !to.draft {
		if err := req.checkWrite(); err != nil {
			req.renderError(err)
			return
		}
	}
	if err := to.handle(req); err != nil {
		req.renderError(err)
	}
}
