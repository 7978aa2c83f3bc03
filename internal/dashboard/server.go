// Package dashboard serves pages that show what controllers do and why, and that edit their
// objects.
//
// It contains the routes, the pages with their templates, styles and scripts, and live updates.
// Reading processes belongs in package inspect, requests to the API server in userclient, sign-in in
// access, and schemas in form. The manager and the dev loop serve it.
//
// Each page is one template and one Go file with a function for each of its routes; server.go
// lists them. The API server authorizes everything: all requests are made as the user.
package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Options configure a Server. Sources and Cluster are required.
type Options struct {
	// Sources returns the processes to show. It is called for each page, must not block, and
	// returns the same Source for the same process each time.
	Sources func(context.Context) []inspect.Source
	// Cluster makes requests as users.
	Cluster *userclient.Cluster
	// Access configures authentication.
	Access access.Options
	// Exits returns the processes whose supervisor knows that they ended; nil without one.
	Exits func() []processes.Exit
	// Programs returns the programs that the supervisor runs; nil without one.
	Programs func() []Program
	// Version is the version of Setpoint.
	Version string
	// Log is slog.Default if nil.
	Log *slog.Logger
	// Now is time.Now if nil.
	Now func() time.Time
}

// Server serves the dashboard.
type Server struct {
	options       Options
	log           *slog.Logger
	now           func() time.Time
	authenticator *access.Authenticator
	probe         *apiProbe
	processes     *processes.Set
	digester      *secretDigester
	streams       limiter
	plans         limiter
	// drafts limits the forms per user, draftSlots those that are processed.
	drafts     limiter
	draftSlots chan struct{}
	// changeCache has the object changes of runs as a user may see them.
	changeCache *cache.LRUExpireCache
	pages       pages
	assets      assets
	handler     http.Handler
}

// New returns a Server. It makes no request yet.
func New(o Options) (*Server, error) {
	if o.Sources == nil || o.Cluster == nil {
		return nil, errors.New("dashboard: Sources and Cluster are required")
	}
	o.Access.OnSessionEnd = o.Cluster.Drop
	s := &Server{options: o, log: cmp.Or(o.Log, slog.Default()), now: o.Now, authenticator: access.New(o.Access, o.Cluster.Verify)}
	s.streams.perUser, s.plans.perUser, s.plans.total = maxStreams, maxPlans, maxTotalPlans
	s.drafts.perUser, s.draftSlots = maxDrafts, make(chan struct{}, maxActiveDrafts)
	if s.now == nil {
		s.now = time.Now
	}
	s.processes, s.changeCache = processes.New(o.Sources, o.Exits, s.now), cache.NewLRUExpireCache(maxCachedChanges)
	s.probe, s.digester = &apiProbe{cluster: o.Cluster, now: s.now}, newSecretDigester()
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	if s.pages, err = parsePages(s.templateFuncs()); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s.handler = s.authenticator.Protect(s.mux())
	return s, nil
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The deadline also ends requests without a body, which may take longer.
	if r.Body != nil && r.Body != http.NoBody {
		_ = setReadDeadline(w, time.Now().Add(bodyTimeout)) // It fails on closed connections.
	}
	s.handler.ServeHTTP(w, r)
}

// bodyTimeout is how long a request body may take to arrive.
const bodyTimeout = 30 * time.Second

// setReadDeadline sets the read deadline of the connection; the zero Time removes it.
func setReadDeadline(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

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

//go:embed assets
var assetFiles embed.FS

// assets are the static files of the dashboard by name, such as "app.css".
type assets map[string]asset

type asset struct {
	hash, mediaType string
	data            []byte
}

func loadAssets() (assets, error) {
	all := assets{}
	return all, fs.WalkDir(assetFiles, "assets", func(file string, entry fs.DirEntry, err error) error {
		mediaType := mime.TypeByExtension(path.Ext(file))
		if err != nil || entry.IsDir() || path.Ext(file) == ".md" || mediaType == "" {
			return err
		}
		data, err := assetFiles.ReadFile(file)
		sum := sha256.Sum256(data)
		all[strings.TrimPrefix(file, "assets/")] = asset{hash: hex.EncodeToString(sum[:8]), mediaType: mediaType, data: data}
		return err
	})
}

// url returns the URL of a file. It contains a hash of the content, so that browsers may cache
// the file forever.
func (a assets) url(name string) string { return "/assets/" + a[name].hash + "/" + name }

func serveAsset(req *request) error {
	found, known := req.assets[req.path("file")]
	if !known || found.hash != req.path("hash") {
		return pageNotFound(req)
	}
	req.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	req.w.Header().Set("Content-Type", found.mediaType)
	return req.write(http.StatusOK, found.data, true)
}

func serveFavicon(req *request) error {
	http.Redirect(req.w, req.r, req.assets.url("favicon.svg"), http.StatusFound)
	return nil
}

// minGzipBytes is the smallest response worth compressing.
const minGzipBytes = 1024

// write sends a response, compressed where that is safe. The compressed size of a page that
// mixes text of an attacker with secrets leaks how much they have in common (BREACH). An
// attacker needs another site that makes the browser load many pages, so only same-origin
// requests and direct navigation are compressed. Public assets are compressed for everyone.
// CSRF tokens are masked by package access and leak nothing.
func (req *request) write(status int, body []byte, public bool) error {
	header := req.w.Header()
	header.Add("Vary", "Accept-Encoding")
	if !public {
		header.Add("Vary", "Sec-Fetch-Site")
	}
	if len(body) >= minGzipBytes && acceptsGzip(req.r) && (public || isSameOrigin(req.r)) {
		header.Set("Content-Encoding", "gzip")
		body = gzipBytes(body)
	}
	req.w.WriteHeader(max(status, http.StatusOK))
	_, err := req.w.Write(body)
	return err
}

// isSameOrigin reports whether a page of the dashboard or the user made the request, according
// to the browser.
func isSameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "same-origin" || site == "none"
}

func acceptsGzip(r *http.Request) bool {
	for each := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, parameter, _ := strings.Cut(strings.TrimSpace(each), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			quality := strings.ReplaceAll(parameter, " ", "")
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}

func gzipBytes(body []byte) []byte {
	var out bytes.Buffer
	small, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // BestSpeed is a valid level.
	_, _ = small.Write(body)                              // A bytes.Buffer never fails.
	_ = small.Close()
	return out.Bytes()
}

// maxStreams is the number of event streams of one user: each takes a connection and watches.
const maxStreams = 32

// Plans call hooks and list objects, so few run at a time: maxPlans of one user and
// maxTotalPlans of all.
const (
	maxPlans      = 2
	maxTotalPlans = 8
)

// maxDrafts is the number of forms that one user may send at a time, maxActiveDrafts the number
// processed at a time. A form takes several times the memory of its object.
const (
	maxDrafts       = 3
	maxActiveDrafts = 4
)

// limiter counts operations per user.
type limiter struct {
	// perUser and total are the limits; total 0 means no limit.
	perUser, total int

	mu     sync.Mutex
	active int
	byName map[string]int
}

// acquire takes a slot and reports whether one was free.
func (t *limiter) acquire(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[name] >= t.perUser || t.total > 0 && t.active >= t.total {
		return false
	}
	if t.byName == nil {
		t.byName = map[string]int{}
	}
	t.byName[name]++
	t.active++
	return true
}

func (t *limiter) release(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
	t.byName[name]--
	if t.byName[name] == 0 {
		delete(t.byName, name)
	}
}

// signInPage is the data of the sign-in page.
type signInPage struct {
	// ReturnURL is the page to return to.
	ReturnURL string
	// Expired reports that a session ended, Unknown that it may belong to another replica, and
	// Lost that a form was not processed.
	Expired, Unknown, Lost bool
	// Private reports that the token is that of the session of development.
	Private bool
	// Problem is why sign-in failed.
	Problem string
}

// redirectIfSignedOut redirects to sign-in and reports whether it did. A session ends when the
// API server rejects its token.
func (req *request) redirectIfSignedOut(err error) bool {
	expired := errors.Is(err, access.ErrExpired)
	if apierrors.IsUnauthorized(err) && req.identity != nil && req.authenticator.UsesSignIn(req.r) {
		req.authenticator.SignOut(req.w, req.r)
		expired = true
	}
	if !expired && !errors.Is(err, access.ErrSignedOut) {
		return false
	}
	if !expired && req.isCrossSiteNavigation() {
		req.reloadPage()
		return true
	}
	req.redirectToSignIn(expired, errors.Is(err, access.ErrUnknownSession))
	return true
}

// isCrossSiteNavigation reports whether the user followed a link of another site. Browsers then
// omit the session cookie.
func (req *request) isCrossSiteNavigation() bool {
	return req.r.Method == http.MethodGet && req.r.Header.Get("Sec-Fetch-Site") == "cross-site" &&
		req.r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// reloadPage reloads the page as a same-site request.
func (req *request) reloadPage() {
	req.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = req.w.Write([]byte("<!doctype html><html lang=\"en\"><meta http-equiv=\"refresh\" content=\"0\"><title>Setpoint</title></html>"))
}

// redirectToSignIn redirects to the sign-in page, in the way that the client understands.
func (req *request) redirectToSignIn(expired, unknown bool) {
	query := url.Values{"return": {req.returnURL()}}
	switch {
	case unknown:
		query.Set("expired", "unknown")
	case expired:
		query.Set("expired", "yes")
	}
	if req.r.Method != http.MethodGet && req.r.URL.Path != "/signout" {
		query.Set("lost", "yes")
	}
	to := "/signin?" + query.Encode()
	if req.isHTMX() {
		req.w.Header().Set("Hx-Redirect", to)
		req.w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if req.r.URL.Path == "/live" {
		req.w.Header().Set("Content-Type", "text/event-stream")
		_, _ = req.w.Write([]byte("event: expired\ndata:\n\n"))
		return
	}
	http.Redirect(req.w, req.r, to, http.StatusSeeOther)
}

// returnURL returns the page to show after sign-in: this page, or the page that sent the form.
func (req *request) returnURL() string {
	from, err := url.Parse(cmp.Or(req.r.Header.Get("Hx-Current-Url"), req.r.Referer()))
	switch {
	case req.r.Method == http.MethodGet && !req.isHTMX():
		return req.requestURI()
	case err != nil || from.Host != req.r.Host:
		return "/"
	}
	return localPath(from.RequestURI())
}

func showSignIn(req *request) error {
	back := localPath(req.query("return"))
	if req.identity != nil {
		return req.redirect(back)
	}
	return req.renderSignIn(http.StatusOK, signInPage{
		ReturnURL: back, Expired: req.query("expired") != "", Unknown: req.query("expired") == "unknown", Lost: req.query("lost") != "",
	})
}

func (req *request) renderSignIn(status int, data signInPage) error {
	data.Private = req.authenticator.IsPrivate()
	return req.render(page{Name: "signin", Title: "Sign in", Static: true, Status: status, Data: data})
}

func signIn(req *request) error {
	if http.NewCrossOriginProtection().Check(req.r) != nil {
		return access.ErrCrossSite
	}
	if err := req.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", access.ErrBadForm, err)
	}
	back := localPath(req.field("return"))
	_, err := req.authenticator.SignIn(req.w, req.r, req.field("token"))
	if err == nil {
		return req.redirect(back)
	}
	data := signInPage{ReturnURL: back, Problem: format.Capitalize(err.Error()) + "."}
	bad := errors.Is(err, userclient.ErrBadToken)
	if bad {
		data.Problem = "The API server does not accept this token. It may have expired, or belong to another cluster."
	}
	if often, ok := errors.AsType[access.TooManyAttemptsError](err); ok {
		if bad {
			data.Problem += " Too many attempts failed from your address: the next ones are delayed."
		}
		req.w.Header().Set("Retry-After", strconv.Itoa(int(often.RetryAfter.Seconds())+1))
		return req.renderSignIn(http.StatusTooManyRequests, data)
	}
	if bad && req.authenticator.IsPrivate() {
		data.Problem = "This is not the token of this session."
	}
	if bad {
		return req.renderSignIn(http.StatusUnauthorized, data)
	}
	return req.renderSignIn(http.StatusServiceUnavailable, data)
}

func signOut(req *request) error {
	req.authenticator.SignOut(req.w, req.r)
	return req.redirect("/signin")
}

// extendSession keeps a session alive while the user types.
func extendSession(req *request) error {
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}

// localPath returns path if it is a path of the dashboard, and "/" otherwise.
func localPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
