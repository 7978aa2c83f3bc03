package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
)

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

// ServeHTTP serves one request.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The deadline also ends requests without a body, which may take longer.
	if r.Body != nil && r.Body != http.NoBody {
		_ = SetReadDeadline(w, time.Now().Add(bodyTimeout)) // It fails on closed connections.
	}
	s.Handler.ServeHTTP(w, r)
}

const bodyTimeout = 30 * time.Second

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

func (req *Request) authenticate(to Route) error {
	limit := int64(maxFormBytes)
	switch {
	case to.Public:
		limit = maxPublicFormBytes
	case to.Draft:
		limit = maxDraftBytes
	}
	req.R.Body = http.MaxBytesReader(req.W, req.R.Body, limit)
	user, err := req.Authenticator.Authenticate(req.R)
	if err != nil {
		if to.Public && !errors.Is(err, access.ErrHost) {
			return nil
		}
		return err
	}
	req.User = user
	req.API, err = req.Cluster.Client(*user)
	return err
}

// RenderError renders an error page, or redirects to sign-in.
func (req *Request) RenderError(err error) {
	if req.redirectIfSignedOut(err) {
		return
	}
	p := req.problemFor(err)
	if p.Status >= http.StatusInternalServerError && req.Context().Err() == nil {
		req.Log.Error("page failed", "path", req.R.URL.Path, "error", err.Error())
	}
	if p.AutoRetry {
		req.W.Header().Set("Retry-After", RetryAfterSeconds)
		req.W.Header().Set("Refresh", RetryAfterSeconds) // Browsers reload the page without a script.
	}
	// Scripts show this header.
	req.W.Header().Set("X-Problem", url.PathEscape(strings.ToValidUTF8(p.Text[:min(len(p.Text), 1000)], "")))
	shown := Page{Name: problemPage, Title: p.Title, Status: p.Status, Data: p}
	if failed := req.Render(shown); failed != nil {
		http.Error(req.W, p.Text, p.Status)
	}
}

// problemFor returns the problem for an error of this request. Not found and forbidden are
// reported only if the permissions of the user are known.
func (req *Request) problemFor(err error) *Problem {
	if known, ok := errors.AsType[*Problem](err); ok && known.Status < http.StatusInternalServerError {
		err = cmp.Or(req.AccessError(), err)
	}
	p := *ProblemOf(err)
	if req.Context().Err() != nil {
		// The next process serves the waiting clients.
		p = Problem{
			Status: http.StatusServiceUnavailable, Title: "Setpoint is stopping", Text: "Setpoint stopped before the page was complete.",
			AutoRetry: true,
			Hint:      "This page reloads automatically.",
		}
	}
	if p.AutoRetry && req.R.Method != http.MethodGet && req.R.Method != http.MethodHead {
		p.AutoRetry, p.BackURL = false, req.returnURL()
		p.Hint = "The change may or may not have been made. Go back, check, and send it again if needed."
	}
	return &p
}

// RetryAfterSeconds is how soon an unavailable page reloads.
const RetryAfterSeconds = "3"

func pageNotFound(req *Request) error { return NotFound("There is no page %s.", req.R.URL.Path) }

func serveAsset(req *Request) error {
	found, known := req.Assets[req.Path("file")]
	if !known || found.hash != req.Path("hash") {
		return pageNotFound(req)
	}
	req.W.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	req.W.Header().Set("Content-Type", found.mediaType)
	return req.write(http.StatusOK, found.Data, true)
}

func serveFavicon(req *Request) error {
	http.Redirect(req.W, req.R, req.Assets.Link("favicon.svg"), http.StatusFound)
	return nil
}
