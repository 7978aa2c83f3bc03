package dashboard

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// tokenServer is an API server that accepts one token until it is revoked, and allows nothing.
type tokenServer struct {
	*httptest.Server
	revoked atomic.Bool
}

const secretToken = "token-of-ann"

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+secretToken || s.revoked.Load():
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`)
	case strings.HasSuffix(r.URL.Path, "selfsubjectreviews"):
		var review authentication.SelfSubjectReview
		review.Status.UserInfo.Username = "ann"
		_ = json.NewEncoder(w).Encode(review)
	default:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,`+
			`"message":"teams is forbidden: User \"ann\" cannot get resource \"teams\" in API group \"example.org\" in the namespace \"shop\""}`)
	}
}

// browser keeps cookies and does not follow redirects.
type browser struct {
	t       *testing.T
	server  *Server
	cookies map[string]string
}

func newBrowser(t *testing.T, host string) *browser {
	t.Helper()
	return &browser{t: t, server: serverOf(t, host, Options{}, &fakeSource{name: "setpoint"}), cookies: map[string]string{}}
}

func (b *browser) send(method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://dashboard.example.org"+path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return b.serve(r, b.server)
}

// serve handles a request with the cookies of the browser, and keeps those of the response.
func (b *browser) serve(r *http.Request, handler http.Handler) *httptest.ResponseRecorder {
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return w
}

// expect checks the status, the location and the text of a response.
func (b *browser) expect(w *httptest.ResponseRecorder, code int, location, says string) {
	b.t.Helper()
	if w.Code != code || w.Header().Get("Location") != location || !strings.Contains(w.Body.String(), says) {
		b.t.Errorf("status %d to %q, not %d to %q with %q:\n%s", w.Code, w.Header().Get("Location"), code, location, says, w.Body)
	}
	if strings.Contains(w.Body.String(), secretToken) {
		b.t.Error("the page shows the token")
	}
}

func TestSignIn(t *testing.T) {
	api := newTokenServer(t)
	b := newBrowser(t, api.URL)
	b.expect(b.send("GET", "/controllers/a/b?state=Failing", nil), 303, "/signin?return=%2Fcontrollers%2Fa%2Fb%3Fstate%3DFailing", "")
	b.expect(b.send("GET", "/signin?return=/resources", nil), 200, "", `name="return" value="/resources"`)
	b.expect(b.send("POST", "/signin", url.Values{"token": {"nonsense"}}), 401, "", "does not accept this token")
	b.expect(b.send("POST", "/signin", url.Values{"token": {secretToken}}, "Origin", "http://evil.example.org"), 403, "", "")
	b.expect(b.send("POST", "/signin", url.Values{"token": {secretToken}, "return": {"//evil.example.org"}}), 303, "/", "")
	b.expect(b.send("POST", "/signin", url.Values{"token": {secretToken}, "return": {"/?a=b"}}), 303, "/?a=b", "")
	b.expect(b.send("GET", "/", nil), 200, "", "Sign out")
	b.expect(b.send("GET", "/signin?return=/resources", nil), 303, "/resources", "")
	b.expect(b.send("POST", "/signout", nil, "Sec-Fetch-Site", "cross-site"), 403, "", "another site")
	b.expect(b.send("POST", "/signout", nil, "Sec-Fetch-Site", "same-origin"), 303, "/signin", "")
	b.expect(b.send("GET", "/", nil), 303, "/signin?return=%2F", "")
}

func TestSessionExpiry(t *testing.T) {
	b := newBrowser(t, newTokenServer(t).URL)
	b.cookies["setpoint"] = "of-a-process-before"
	b.expect(b.send("GET", "/resources?a=b", nil), 303, "/signin?expired=yes&return=%2Fresources%3Fa%3Db", "")
	b.expect(b.send("POST", "/signout", url.Values{}), 303, "/signin?expired=yes&return=%2F", "")
	b.expect(b.send("POST", "/controllers/a/b/suspend", url.Values{}, "Referer", "http://dashboard.example.org/x?y"), 303, "/signin?expired=yes&lost=yes&return=%2Fx%3Fy", "")
	b.expect(b.send("GET", "/signin?expired=yes&lost=yes", nil), 200, "", "Your last change was not made")
	b.expect(b.send("GET", "/live", nil, "Accept", "text/event-stream"), 200, "", "event: expired")
	w := b.send("GET", "/", nil, "Hx-Request", "true", "Hx-Current-URL", "http://dashboard.example.org/?a=b")
	if to := w.Header().Get("Hx-Redirect"); w.Code != 401 || to != "/signin?expired=yes&return=%2F%3Fa%3Db" {
		t.Errorf("a script gets %d, %q", w.Code, to)
	}
}

func TestCrossSiteLinks(t *testing.T) {
	b := newBrowser(t, newTokenServer(t).URL)
	b.expect(b.send("GET", "/resources", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200, "", `http-equiv="refresh"`)
	b.expect(b.send("GET", "/resources", nil, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"), 303, "/signin?return=%2Fresources", "")
}

func TestForbiddenAndRevoked(t *testing.T) {
	api := newTokenServer(t)
	b := newBrowser(t, api.URL)
	b.send("POST", "/signin", url.Values{"token": {secretToken}})
	const object = "/objects/teams.example.org/shop/a"
	w := b.getForbidden(object)
	b.expect(w, 403, "", "User &#34;ann&#34; cannot get resource &#34;teams&#34; in API group &#34;example.org&#34; in the namespace &#34;shop&#34;.")
	b.expect(w, 403, "", "kubectl create role teams-get --verb=get --resource=teams.example.org -n shop")
	api.revoked.Store(true)
	b.expect(b.getForbidden(object), 303, "/signin?expired=yes&return="+url.QueryEscape(object), "")
	b.expect(b.send("GET", "/", nil), 303, "/signin?return=%2F", "")
}

// getForbidden handles a request with the error of a forbidden get.
func (b *browser) getForbidden(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://dashboard.example.org"+path, http.NoBody)
	return b.serve(r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.server.Serve(web.Route{Handle: func(req *web.Request) error {
			_, err := req.API.Get(req.Context(), teamsController().Kinds[0], "shop", "a")
			return err
		}}, w, r)
	}))
}

func TestAPIServerUnreachable(t *testing.T) {
	api := newTokenServer(t)
	b := newBrowser(t, api.URL)
	b.send("POST", "/signin", url.Values{"token": {secretToken}})
	api.Close()
	w := b.getForbidden("/x")
	b.expect(w, 503, "", "Retry now")
	if w.Header().Get("Refresh") == "" || w.Header().Get("Retry-After") == "" {
		t.Error("the page does not come back by itself")
	}
	b.expect(b.send("GET", "/signin", nil), 303, "/", "")
	delete(b.cookies, "setpoint")
	b.expect(b.send("POST", "/signin", url.Values{"token": {secretToken}}), 503, "", "cannot be reached")
}

func TestSignOutDropsClient(t *testing.T) {
	api := newTokenServer(t)
	b := newBrowser(t, api.URL)
	b.send("POST", "/signin", url.Values{"token": {secretToken}})
	user := userclient.User{Name: "ann", Token: secretToken}
	before := must.Get(b.server.Cluster.Client(user)).In(t)
	if again, _ := b.server.Cluster.Client(user); again != before {
		t.Fatal("a user is connected for each page")
	}
	b.expect(b.send("POST", "/signout", nil), 303, "/signin", "")
	if after, _ := b.server.Cluster.Client(user); after == before {
		t.Error("the token of who has signed out is kept")
	}
}

func TestTypingExtendsSession(t *testing.T) {
	b := newBrowser(t, newTokenServer(t).URL)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	b.server.Authenticator = access.New(access.Options{Now: func() time.Time { return now }}, b.server.Cluster.Verify)
	b.send("POST", "/signin", url.Values{"token": {secretToken}})
	for range 4 {
		now = now.Add(20 * time.Minute)
		b.expect(b.send("GET", "/session", nil, "Hx-Request", "true"), 204, "", "")
	}
	now = now.Add(31 * time.Minute)
	if w := b.send("GET", "/session", nil, "Hx-Request", "true"); w.Code != 401 {
		t.Errorf("an expired session has status %d", w.Code)
	}
}
