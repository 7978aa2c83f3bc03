// Package web is what all pages of the dashboard share: requests of users with their permissions, routes, rendering, lists,
// actions, links, problems and sign-in.
//
// It knows no page. The pages, their templates, styles and scripts are in package dashboard.
package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Site is what all requests share.
type Site struct {
	Cluster       *userclient.Cluster
	Processes     *processes.Set
	Authenticator *access.Authenticator
	Log           *slog.Logger
	Now           func() time.Time
	// Version is the version of Setpoint.
	Version   string
	Templates Templates
	Assets    Assets
	// Handler serves the routes: see ServeRoutes.
	Handler http.Handler
}

// ServeHTTP serves one request.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The deadline also ends requests without a body, which may take longer.
	if r.Body != nil && r.Body != http.NoBody {
		_ = SetReadDeadline(w, time.Now().Add(bodyTimeout)) // It fails on closed connections.
	}
	s.Handler.ServeHTTP(w, r)
}

// bodyTimeout is how long a request body may take to arrive.
const bodyTimeout = 30 * time.Second

// SetReadDeadline sets the read deadline of the connection; the zero Time removes it.
func SetReadDeadline(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// Route is one route.
type Route struct {
	// Pattern is a pattern of http.ServeMux with a method.
	Pattern string
	Handle  func(*Request) error
	// Public routes need no session. They check the origin of forms themselves.
	Public bool
	// Draft routes receive an object, which may be large. They read the form themselves.
	Draft bool
}

// SiteRoutes returns the routes of what belongs to no page.
func SiteRoutes() []Route {
	return []Route{
		{Pattern: "GET /signin", Handle: showSignIn, Public: true},
		{Pattern: "POST /signin", Handle: signIn, Public: true},
		{Pattern: "POST /signout", Handle: signOut},
		{Pattern: "GET /session", Handle: extendSession},
		{Pattern: "GET /assets/{hash}/{file...}", Handle: serveAsset, Public: true},
		{Pattern: "GET /favicon.ico", Handle: serveFavicon, Public: true},
		{Pattern: "GET /", Handle: pageNotFound},
	}
}

// ServeRoutes makes the site serve the routes of pages, and its own.
func (s *Site) ServeRoutes(pages []Route) {
	mux := http.NewServeMux()
	for _, each := range append(SiteRoutes(), pages...) {
		mux.HandleFunc(each.Pattern, func(w http.ResponseWriter, r *http.Request) { s.Serve(each, w, r) })
	}
	s.Handler = s.Authenticator.Protect(mux)
}

// Serve handles one request, and renders its error.
func (s *Site) Serve(to Route, w http.ResponseWriter, r *http.Request) {
	req := &Request{Site: s, W: w, R: r}
	if err := req.authenticate(to); err != nil {
		req.RenderError(err)
		return
	}
	if r.Method == http.MethodPost && !to.Public && !to.Draft {
		if err := req.CheckWrite(); err != nil {
			req.RenderError(err)
			return
		}
	}
	if err := to.Handle(req); err != nil {
		req.RenderError(err)
	}
}
