package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// testEnv is an API server with some tokens, and a clock.
type testEnv struct {
	t             *testing.T
	now           time.Time
	tokens        map[string]string
	down          bool
	verifications int
}

func newTestEnv(t *testing.T) *testEnv {
	return &testEnv{
		t: t, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		tokens: map[string]string{"token-of-ann": "ann", "token-of-bob": "bob"},
	}
}

func (w *testEnv) verify(_ context.Context, token string) (userclient.User, error) {
	w.verifications++
	if w.down {
		return userclient.User{}, userclient.ErrUnreachable
	}
	if name := w.tokens[token]; name != "" {
		return userclient.User{Name: name, Token: token}, nil
	}
	return userclient.User{}, fmt.Errorf("ask whose token this is: %w", userclient.ErrBadToken)
}

func (w *testEnv) authenticator(o access.Options) *access.Authenticator {
	o.Now = func() time.Time { return w.now }
	return access.New(o, w.verify)
}

// browser keeps cookies.
type browser struct {
	*testEnv
	authenticator *access.Authenticator
	peer          string
	cookies       map[string]*http.Cookie
}

func (w *testEnv) browser(authenticator *access.Authenticator) *browser {
	return &browser{testEnv: w, authenticator: authenticator, peer: "203.0.113.7:4711", cookies: map[string]*http.Cookie{}}
}

func (b *browser) request(method, path string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "http://dashboard.example.org"+path, http.NoBody)
	r.RemoteAddr = b.peer
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Add(name, value)
	}
	return r
}

func (b *browser) storeCookies(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		b.cookies[c.Name] = c
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
}

func (b *browser) signIn(token string) error {
	w := httptest.NewRecorder()
	err := b.authenticator.SignIn(w, b.request("POST", "/signin"), token)
	b.storeCookies(w)
	return err
}

func (b *browser) authenticate(headers ...string) string {
	v, err := b.authenticator.Authenticate(b.request("GET", "/", headers...))
	for name, known := range map[string]error{
		"signed out": access.ErrSignedOut, "expired": access.ErrExpired, "unreachable": userclient.ErrUnreachable,
		"wrong host": access.ErrHost, "wrong speaker": access.ErrProxyUser,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return v.Name
}

func (b *browser) expect(want, when string, headers ...string) {
	b.t.Helper()
	if got := b.authenticate(headers...); got != want {
		b.t.Errorf("%s: the user is %s, not %s", when, got, want)
	}
}

func TestSessions(t *testing.T) {
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{})
	ann, bob := w.browser(authenticator), w.browser(authenticator)
	ann.expect("signed out", "at first")
	if err := ann.signIn("nonsense"); !errors.Is(err, userclient.ErrBadToken) {
		t.Errorf("nonsense is accepted: %v", err)
	}
	if err := ann.signIn(strings.Repeat("x", 1<<20)); !errors.Is(err, userclient.ErrBadToken) {
		t.Errorf("a very long token is accepted: %v", err)
	}
	ann.expect("signed out", "after a bad token")
	must.Succeed(t, ann.signIn(" Bearer token-of-ann\n"))
	must.Succeed(t, bob.signIn("token-of-bob"))
	ann.expect("ann", "signed in")
	bob.expect("bob", "signed in")
	before := *ann.cookies["setpoint"]
	must.Succeed(t, ann.signIn("token-of-ann"))
	ann.expect("ann", "signed in again")
	old := w.browser(authenticator)
	old.cookies["setpoint"] = &before
	old.expect("expired", "with the session before")
	out := httptest.NewRecorder()
	used := *ann.cookies["setpoint"]
	authenticator.SignOut(out, ann.request("POST", "/signout"))
	ann.storeCookies(out)
	ann.expect("signed out", "signed out")
	old.cookies["setpoint"] = &used
	old.expect("expired", "with the session that was signed out")
	bob.expect("bob", "still signed in")
}

func TestCookies(t *testing.T) {
	w := newTestEnv(t)
	for _, test := range []struct {
		secure bool
		want   string
	}{
		{false, "setpoint=X; Path=/; Max-Age=90000; HttpOnly; SameSite=Strict"},
		{true, "__Host-setpoint=X; Path=/; Max-Age=90000; HttpOnly; Secure; SameSite=Strict"},
	} {
		rec := httptest.NewRecorder()
		authenticator := w.authenticator(access.Options{Secure: test.secure, Lifetime: time.Hour})
		must.Succeed(t, authenticator.SignIn(rec, w.browser(authenticator).request("POST", "/signin"), "token-of-ann"))
		value := rec.Result().Cookies()[0].Value
		if got := strings.Replace(rec.Header().Get("Set-Cookie"), value, "X", 1); got != test.want || len(value) != 26 {
			t.Errorf("got  %s\n\twant %s", got, test.want)
		}
		if strings.Contains(value, "ann") {
			t.Error("the cookie says more than it should")
		}
	}
}

func TestSessionExpiry(t *testing.T) {
	signedIn := func(t *testing.T) *browser {
		w := newTestEnv(t)
		b := w.browser(w.authenticator(access.Options{Lifetime: 2 * time.Hour}))
		must.Succeed(t, b.signIn("token-of-ann"))
		return b
	}
	t.Run("unused", func(t *testing.T) {
		b := signedIn(t)
		b.now = b.now.Add(29 * time.Minute)
		b.expect("ann", "before")
		b.now = b.now.Add(31 * time.Minute)
		b.expect("expired", "unused")
		b.now = b.now.Add(-31 * time.Minute)
		b.expect("expired", "once ended")
	})
	t.Run("open on a screen alone", func(t *testing.T) {
		b := signedIn(t)
		b.now = b.now.Add(29 * time.Minute)
		b.expect("ann", "an update", "X-Live: yes")
		b.expect("ann", "a stream", "Accept: text/event-stream")
		b.now = b.now.Add(2 * time.Minute)
		b.expect("expired", "idle")
	})
	t.Run("in use", func(t *testing.T) {
		b := signedIn(t)
		for range 12 {
			b.expect("ann", "in use")
			b.now = b.now.Add(10 * time.Minute)
		}
		b.now = b.now.Add(time.Second)
		b.expect("expired", "at the end of its lifetime")
	})
}

// The dashboard of a session belongs to who knows its token: other users of the machine reach its port.
func TestPrivate(t *testing.T) {
	const token = "token-of-the-session"
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{Token: token})
	handler := authenticator.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	open := func(b *browser, path string, headers ...string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, b.request("GET", path, headers...))
		b.storeCookies(rec)
		return rec
	}
	owner, other := w.browser(authenticator), w.browser(authenticator)
	for _, path := range []string{"/", "/?token=", "/?token=guess", "/?token=token-of-ann"} {
		if rec := open(other, path, "Host: 127.0.0.1:7400"); rec.Code != http.StatusTeapot || len(other.cookies) > 0 {
			t.Errorf("%s: %d, %v", path, rec.Code, other.cookies)
		}
		other.expect("signed out", "after "+path, "Host: 127.0.0.1:7400")
	}
	rec := open(owner, "/controllers?q=a&token="+token, "Host: 127.0.0.1:7400")
	if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/controllers?q=a" || strings.Contains(rec.Body.String(), token) {
		t.Errorf("%d, %v:\n%s", rec.Code, rec.Header(), rec.Body)
	}
	cookie := owner.cookies["setpoint-7400"]
	if cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, token) {
		t.Errorf("%+v", owner.cookies)
	}
	w.now = w.now.Add(30 * 24 * time.Hour) // It lasts as long as the process.
	for host, want := range map[string]string{
		"localhost:7400": "dev", "127.0.0.1:7400": "dev", "[::1]:7400": "dev", "LOCALHOST:7400": "dev", "127.1.2.3:7400": "dev",
		"127.0.0.1:7401":   "signed out", // A browser sends the cookie there, too.
		"evil.example.org": "wrong host", "localhost.evil.example.org": "wrong host", "10.0.0.1:7400": "wrong host", "": "wrong host",
		"127.0.0.1.nip.io:7400": "wrong host", "0.0.0.0:7400": "wrong host",
	} {
		owner.expect(want, "for "+host, "Host: "+host)
		if rec := open(owner, "/", "Host: "+host); (rec.Code == http.StatusForbidden) != (want == "wrong host") {
			t.Errorf("for %s: status %d", host, rec.Code)
		}
	}
	v, err := authenticator.Authenticate(owner.request("GET", "/", "Host: localhost:7400"))
	if err != nil || !v.OwnCredentials {
		t.Errorf("%+v, %v", v, err)
	}
	for range 20 {
		err = other.signIn("guess")
	}
	if !errors.Is(err, userclient.ErrBadToken) {
		t.Error(err)
	}
	must.Succeed(t, owner.signIn(token)) // Others do not delay the owner.
}

func TestProxies(t *testing.T) {
	headers := access.Headers{User: "X-Forwarded-User", Groups: "X-Forwarded-Groups"}
	far := headers
	far.Trusted = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	for _, test := range []struct {
		name    string
		headers access.Headers
		peer    string
		sent    []string
		want    string
	}{
		{"no header is believed", access.Headers{}, "127.0.0.1:1", []string{"X-Forwarded-User: ann"}, "signed out"},
		{"from loopback", headers, "127.0.0.1:1", []string{"X-Forwarded-User: ann"}, "ann []"},
		{"from loopback, IPv6", headers, "[::1]:1", []string{"X-Forwarded-User: ann"}, "ann []"},
		{"from elsewhere", headers, "203.0.113.9:1", []string{"X-Forwarded-User: ann"}, "signed out"},
		{"from elsewhere, saying otherwise", headers, "203.0.113.9:1", []string{"X-Forwarded-User: ann", "X-Forwarded-For: 127.0.0.1"}, "signed out"},
		{"from who is trusted", far, "203.0.113.9:1", []string{"X-Forwarded-User: ann"}, "ann []"},
		{"from who is trusted, mapped", far, "[::ffff:203.0.113.9]:1", []string{"X-Forwarded-User: ann"}, "ann []"},
		{"loopback is not trusted then", far, "127.0.0.1:1", []string{"X-Forwarded-User: ann"}, "signed out"},
		{"groups", headers, "127.0.0.1:1", []string{"X-Forwarded-User: ann", "X-Forwarded-Groups: a, b,", "X-Forwarded-Groups: c"}, "ann [a b c]"},
		{"groups of the cluster", headers, "127.0.0.1:1", []string{"X-Forwarded-User: ann", "X-Forwarded-Groups: system:masters,a,system:authenticated,system:nodes"}, "ann [a system:authenticated]"},
		// Fault S10: a directory could name users and groups of the cluster.
		{"prefixes", access.Headers{User: "X-Forwarded-User", Groups: "X-Forwarded-Groups", UserPrefix: "sso:", GroupsPrefix: "sso:"}, "127.0.0.1:1",
			[]string{"X-Forwarded-User: ann", "X-Forwarded-Groups: cluster-admins,system:masters,system:authenticated"}, "sso:ann [sso:cluster-admins system:authenticated]"},
		{"a user of the cluster with a prefix", access.Headers{User: "X-Forwarded-User", UserPrefix: "sso:"}, "127.0.0.1:1", []string{"X-Forwarded-User: system:admin"}, "wrong speaker"},
		{"a user of the cluster", headers, "127.0.0.1:1", []string{"X-Forwarded-User: system:admin"}, "wrong speaker"},
		{"no user", headers, "127.0.0.1:1", []string{"X-Forwarded-Groups: a"}, "signed out"},
		{"a token", headers, "127.0.0.1:1", []string{"Authorization: Bearer token-of-bob"}, "bob [] with token-of-bob"},
		{"a token counts more than a name", headers, "127.0.0.1:1", []string{"Authorization: bearer token-of-bob", "X-Forwarded-User: ann"}, "bob [] with token-of-bob"},
		{"a bad token", headers, "127.0.0.1:1", []string{"Authorization: Bearer x", "X-Forwarded-User: ann"}, "expired"},
		{"a token from elsewhere", headers, "203.0.113.9:1", []string{"Authorization: Bearer token-of-bob"}, "signed out"},
		{"a password", headers, "127.0.0.1:1", []string{"Authorization: Basic token-of-bob"}, "signed out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestEnv(t)
			b := w.browser(w.authenticator(access.Options{Headers: test.headers, Hosts: []string{"dashboard.example.org"}}))
			b.peer = test.peer
			got := b.authenticate(test.sent...)
			if v, err := b.authenticator.Authenticate(b.request("GET", "/", test.sent...)); err == nil {
				if got = fmt.Sprint(v.Name, " ", v.Groups); v.Token != "" {
					got += " with " + v.Token
				}
				if v.OwnCredentials {
					t.Errorf("%+v", v)
				}
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if w.verifications > 1 && test.want != "expired" {
				t.Errorf("a token was verified %d times", w.verifications)
			}
		})
	}
}

// Another site that resolves its name to a trusted address can send any header.
func TestProxyHosts(t *testing.T) {
	for _, test := range []struct {
		hosts      []string
		host, want string
	}{
		{nil, "127.0.0.1:8080", "ann"},
		{nil, "[::1]:8080", "ann"},
		{nil, "10.0.0.7", "ann"},
		{nil, "LOCALHOST", "ann"},
		{nil, "evil.example.org", "wrong host"},
		{nil, "evil.example.org:8080", "wrong host"},
		{nil, "127.0.0.1.nip.io", "wrong host"},
		{nil, "", "wrong host"},
		{[]string{"setpoint.example.org", "other"}, "Setpoint.example.org:443", "ann"},
		{[]string{"setpoint.example.org:443"}, "setpoint.example.org", "ann"},
		{[]string{"setpoint.example.org"}, "evil.setpoint.example.org", "wrong host"},
		{[]string{"setpoint.example.org"}, "127.0.0.1", "wrong host"},
	} {
		w := newTestEnv(t)
		b := w.browser(w.authenticator(access.Options{Headers: access.Headers{User: "X-Forwarded-User"}, Hosts: test.hosts}))
		b.peer = "127.0.0.1:1"
		b.expect(test.want, fmt.Sprintf("%q of %v", test.host, test.hosts), "Host: "+test.host, "X-Forwarded-User: ann")
		b.expect("signed out", "who says nothing", "Host: "+test.host)
	}
}

// Bad tokens delay no good ones. Fault S8.
func TestBadTokensDoNotLockUsersOut(t *testing.T) {
	w := newTestEnv(t)
	b := w.browser(w.authenticator(access.Options{}))
	for range 100 {
		if err := b.signIn("guess"); !errors.Is(err, userclient.ErrBadToken) {
			t.Fatal(err)
		}
	}
	must.Succeed(t, b.signIn("token-of-ann"))
}

func TestCheckWrite(t *testing.T) {
	b := newTestEnv(t).browser(nil)
	for header, ok := range map[string]bool{
		"X: a form of a command": true, "Origin: http://dashboard.example.org": true, "Sec-Fetch-Site: same-origin": true,
		"Origin: http://evil.example.org": false, "Origin: http://dashboard.example.org:8080": false, "Origin: null": false,
		"Sec-Fetch-Site: cross-site": false, "Sec-Fetch-Site: same-site": false,
	} {
		if err := access.CheckWrite(b.request("POST", "/", header)); (err == nil) != ok || err != nil && !errors.Is(err, access.ErrCrossSite) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

func TestProtect(t *testing.T) {
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{})
	handler := authenticator.Protect(http.NotFoundHandler())
	for _, path := range []string{"/", "/assets/x/app.css"} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, w.browser(authenticator).request("GET", path))
		h := rec.Header()
		if got := h.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy has no %s", path, part)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" ||
			h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Permissions-Policy") == "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}
