package dashboard

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// fakeSource is a process with fixed data.
type fakeSource struct {
	inspect.Source

	name        string
	process     inspect.Process
	controllers []inspect.Controller
	page        inspect.Page
	states      []inspect.ObjectState
	runs        []inspect.Run
	revisions   chan uint64
	err         error
}

func (s *fakeSource) Name() string { return s.name }

func (s *fakeSource) Process(context.Context) (inspect.Process, error) { return s.process, s.err }

func (s *fakeSource) Controllers(context.Context) ([]inspect.Controller, error) {
	return s.controllers, s.err
}

func (s *fakeSource) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	return s.page, s.err
}

func (s *fakeSource) States(context.Context, object.Ref) ([]inspect.ObjectState, error) {
	return s.states, s.err
}

func (s *fakeSource) Runs(context.Context, object.Ref, int) ([]inspect.Run, error) {
	return s.runs, s.err
}

func (s *fakeSource) Reviews(context.Context, string, bool) ([]inspect.Run, error) {
	return s.runs, s.err
}

func (s *fakeSource) Run(_ context.Context, id uint64, _ bool) (inspect.Run, error) {
	for _, run := range s.runs {
		if run.ID == id {
			return run, nil
		}
	}
	return inspect.Run{}, failure.ErrNotFound
}

func (s *fakeSource) Plan(context.Context, string, object.Ref, json.RawMessage) (inspect.Plan, error) {
	return inspect.Plan{Text: "nothing to do", Report: json.RawMessage("{}")}, s.err
}

func (s *fakeSource) Await(ctx context.Context, _ uint64) (uint64, error) {
	select {
	case revision := <-s.revisions:
		return revision, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// teamsController is a typical controller.
func teamsController() inspect.Controller {
	return inspect.Controller{
		Name: "compositecontroller.setpoint.dev/teams", Process: "setpoint",
		Kinds:       []object.Kind{{Group: "example.org", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true}},
		Description: []string{"For each Team it makes Namespaces."},
		Conditions:  []inspect.Condition{{Type: "Ready", Status: "True", Reason: "Serving"}},
		Objects:     3,
	}
}

func newServer(t *testing.T, sources ...inspect.Source) *Server {
	t.Helper()
	return signedIn(serverOf(t, "http://127.0.0.1:1", Options{Access: access.Options{Token: testToken}, Now: func() time.Time { return noon }}, sources...))
}

// serverOf returns a Server of an API server.
func serverOf(t *testing.T, host string, o Options, sources ...inspect.Source) *Server {
	t.Helper()
	o.Cluster, o.Log = must.Get(userclient.NewCluster(&rest.Config{Host: host})).In(t), slog.New(slog.DiscardHandler)
	o.Sources = func(context.Context) []inspect.Source { return sources }
	return must.Get(New(o)).In(t)
}

// testToken is the token of a private dashboard.
const testToken = "token-of-this-session"

// signedIn lets all requests come from the browser of the owner.
func signedIn(s *Server) *Server {
	served := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.ServeHTTP(w, fromOwner(s, r)) })
	return s
}

// fromOwner adds the cookie that a browser gets from the address with the token.
func fromOwner(s *Server, r *http.Request) *http.Request {
	opened := httptest.NewRecorder()
	s.Authenticator.Protect(http.NotFoundHandler()).ServeHTTP(opened, httptest.NewRequest(http.MethodGet, "http://"+r.Host+"/?token="+testToken, http.NoBody))
	for _, cookie := range opened.Result().Cookies() {
		r.AddCookie(cookie)
	}
	return r
}

// send sends a request of a browser on this machine, with the names and values of headers.
func send(s http.Handler, method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, body)
	r.RemoteAddr = "127.0.0.1:1234"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, s *Server, path string) *httptest.ResponseRecorder {
	t.Helper()
	return send(s, http.MethodGet, path, http.NoBody)
}

// Fault U12: responses are compressed, except pages that another site requests, since their
// size would leak content.
func TestCompression(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}})
	page, asset := "/", s.Assets.Link("app.css")
	for _, test := range []struct {
		path, accept, site string
		compressed         bool
	}{
		{page, "gzip, deflate, br", "same-origin", true},
		{page, "br, gzip;q=0.5", "none", true},
		{page, "gzip", "cross-site", false},
		{page, "gzip", "same-site", false},
		{page, "gzip", "", false},
		{page, "gzip;q=0", "same-origin", false},
		{page, "br", "same-origin", false},
		{page, "", "same-origin", false},
		{asset, "gzip", "", true},
		{asset, "", "", false},
	} {
		w := send(s, http.MethodGet, test.path, http.NoBody, "Accept-Encoding", test.accept, "Sec-Fetch-Site", test.site)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != test.compressed || w.Code != http.StatusOK {
			t.Errorf("%+v: status %d, %v", test, w.Code, w.Header())
			continue
		}
		if vary := strings.Join(w.Header().Values("Vary"), ","); !strings.Contains(vary, "Accept-Encoding") || strings.Contains(vary, "Sec-Fetch-Site") != (test.path == page) {
			t.Errorf("%+v: varies by %q", test, vary)
		}
		var body io.Reader = w.Body
		if test.compressed {
			body = must.Get(gzip.NewReader(w.Body)).In(t)
		}
		text, err := io.ReadAll(body)
		if want := map[string]string{page: "teams", asset: "color-scheme"}[test.path]; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%+v: %v, without %q", test, err, want)
		}
	}
}

// deadlineRecorder is a connection that records read deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (s *deadlineRecorder) SetReadDeadline(end time.Time) error {
	s.deadlines = append(s.deadlines, end)
	return nil
}

// countingReader is a body that counts read bytes.
type countingReader struct{ read int }

func (e *countingReader) Read(into []byte) (int, error) {
	e.read += len(into)
	return copy(into, strings.Repeat("x", len(into))), nil
}

func TestAnonymousBodyLimit(t *testing.T) {
	s := newBrowser(t, newTokenServer(t).URL).server
	for origin, most := range map[string]int{"http://dashboard.example.org": 40 << 10, "http://evil.example.org": 0} {
		body := &countingReader{}
		r := httptest.NewRequest(http.MethodPost, "http://dashboard.example.org/signin", io.NopCloser(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, r)
		if body.read > most {
			t.Errorf("from %s: %d bytes are read", origin, body.read)
		}
		if len(w.deadlines) != 1 || time.Until(w.deadlines[0]) > 30*time.Second || time.Until(w.deadlines[0]) < 15*time.Second {
			t.Errorf("from %s: the body has until %v", origin, w.deadlines)
		}
	}
}

func TestReadDeadlineIsCleared(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	r := httptest.NewRequest(http.MethodPost, "http://localhost/signout", strings.NewReader("a=b"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	fromOwner(s, r)
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	s.ServeHTTP(w, r)
	if len(w.deadlines) != 3 || !w.deadlines[2].IsZero() {
		t.Errorf("status %d: the request has until %v", w.Code, w.deadlines)
	}
}

func TestStreamLimit(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	for range maxStreams {
		if !s.streams.Acquire("dev") {
			t.Fatal("there are too many already")
		}
	}
	if w := get(t, s, "/live"); w.Code != http.StatusTooManyRequests {
		t.Errorf("one too many has status %d", w.Code)
	}
	if !s.streams.Acquire("ann") {
		t.Error("another user has none")
	}
	s.streams.Release("dev")
	if !s.streams.Acquire("dev") {
		t.Error("one that was closed still counts")
	}
}
