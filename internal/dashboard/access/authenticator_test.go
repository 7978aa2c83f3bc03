package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func (b *browser) signIn(token string) (*access.Identity, error) {
	w := httptest.NewRecorder()
	v, err := b.authenticator.SignIn(w, b.request("POST", "/signin"), token)
	b.storeCookies(w)
	return v, err
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
	return v.User.Name
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
	if _, err := ann.signIn("nonsense"); !errors.Is(err, userclient.ErrBadToken) {
		t.Errorf("nonsense is accepted: %v", err)
	}
	if _, err := ann.signIn(strings.Repeat("x", 1<<20)); !errors.Is(err, userclient.ErrBadToken) {
		t.Errorf("a very long token is accepted: %v", err)
	}
	ann.expect("signed out", "after a bad token")
	v, err := ann.signIn(" Bearer token-of-ann\n")
	if err != nil || v.User.Name != "ann" || v.User.Token != "token-of-ann" || len(v.CSRF) < 40 {
		t.Fatalf("%+v, %v", v, err)
	}
	must.Get(bob.signIn("token-of-bob")).In(t)
	ann.expect("ann", "signed in")
	bob.expect("bob", "signed in")
	before := *ann.cookies["setpoint"]
	must.Get(ann.signIn("token-of-ann")).In(t)
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
		must.Get(authenticator.SignIn(rec, w.browser(authenticator).request("POST", "/signin"), "token-of-ann")).In(t)
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
		must.Get(b.signIn("token-of-ann")).In(t)
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
	t.Run("with the token", func(t *testing.T) {
		b := signedIn(t)
		delete(b.tokens, "token-of-ann")
		b.expect("ann", "just verified")
		b.now = b.now.Add(4 * time.Minute)
		b.expect("expired", "revoked")
		b.tokens["token-of-ann"] = "ann"
		b.expect("expired", "once ended")
	})
	t.Run("with another user of the token", func(t *testing.T) {
		b := signedIn(t)
		b.tokens["token-of-ann"] = "mallory"
		b.now = b.now.Add(4 * time.Minute)
		b.expect("expired", "of another user")
	})
	t.Run("not with the API server", func(t *testing.T) {
		b := signedIn(t)
		b.down, b.verifications = true, 0
		b.now = b.now.Add(4 * time.Minute)
		b.expect("ann", "unreachable")
		b.expect("ann", "still unreachable")
		if b.verifications != 1 {
			t.Errorf("%d requests in a moment", b.verifications)
		}
		b.down = false
		delete(b.tokens, "token-of-ann")
		b.now = b.now.Add(11 * time.Second)
		b.expect("expired", "reachable again")
	})
}

func TestSessionLimit(t *testing.T) {
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{})
	first := w.browser(authenticator)
	for i := range 1001 {
		b := w.browser(authenticator)
		if i == 0 {
			b = first
		}
		b.peer = fmt.Sprintf("10.0.%d.%d:1", i/250, i%250)
		token := fmt.Sprint("token-of-", i)
		w.tokens[token] = fmt.Sprint("user-", i)
		must.Get(b.signIn(token)).In(t)
		w.now = w.now.Add(time.Second)
	}
	first.expect("expired", "the oldest of too many")
}

// Bad tokens of an address delay each other, but not a good one. Fault S8.
func TestBadTokensDoNotLockUsersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		authenticator := access.New(access.Options{Now: time.Now}, w.verify)
		b := w.browser(authenticator)
		for range 10 {
			if _, err := b.signIn("guess"); !errors.Is(err, userclient.ErrBadToken) || errors.As(err, new(access.TooManyAttemptsError)) {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for range 3 {
			if _, err := b.signIn("guess"); !errors.As(err, new(access.TooManyAttemptsError)) || !errors.Is(err, userclient.ErrBadToken) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("three more were refused within %s", took)
		}
		if _, err := b.signIn("token-of-ann"); err != nil {
			t.Errorf("a good token is refused after bad ones: %v", err)
		}
		began = time.Now()
		for range 5 {
			if _, err := b.signIn("token-of-bob"); err != nil || time.Since(began) > 0 {
				t.Errorf("good tokens slow down each other: %v after %s", err, time.Since(began))
			}
		}
		other := w.browser(authenticator)
		other.peer = "203.0.113.8:1"
		if _, err := other.signIn("guess"); errors.As(err, new(access.TooManyAttemptsError)) {
			t.Errorf("another address: %v", err)
		}
		<-time.After(time.Minute)
		if _, err := b.signIn("guess"); errors.As(err, new(access.TooManyAttemptsError)) {
			t.Errorf("a minute later: %v", err)
		}
	})
}

// Concurrent attempts wait, and fail after a timeout.
func TestConcurrentAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		authenticator := access.New(access.Options{Now: time.Now}, w.verify)
		for range 10 {
			_, _ = w.browser(authenticator).signIn("guess")
		}
		w.verifications = 0
		var unseen atomic.Int32
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				_, err := w.browser(authenticator).signIn("guess")
				if !errors.As(err, new(access.TooManyAttemptsError)) {
					t.Errorf("got %v", err)
				}
				if !errors.Is(err, userclient.ErrBadToken) {
					unseen.Add(1)
				}
			})
		}
		group.Wait()
		if w.verifications > 6 || int(unseen.Load()) != 50-w.verifications {
			t.Errorf("%d of 50 were looked at, %d were not", w.verifications, unseen.Load())
		}
		if _, err := w.browser(authenticator).signIn("token-of-ann"); err != nil {
			t.Errorf("afterwards a good token is refused: %v", err)
		}
	})
}

func TestIPv6PrefixesShareAttempts(t *testing.T) {
	w := newTestEnv(t)
	b := w.browser(w.authenticator(access.Options{}))
	var err error
	for i := range 11 {
		b.peer = fmt.Sprintf("[2001:db8::%d]:1", i+1)
		_, err = b.signIn("guess")
	}
	if !errors.As(err, new(access.TooManyAttemptsError)) {
		t.Errorf("one household has many addresses: %v", err)
	}
}

func TestSuccessIsNotCounted(t *testing.T) {
	w := newTestEnv(t)
	b := w.browser(w.authenticator(access.Options{}))
	for range 20 {
		must.Get(b.signIn("token-of-ann")).In(t)
	}
}

func TestAttemptsBehindProxies(t *testing.T) {
	w := newTestEnv(t)
	trusted := access.Headers{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, test := range []struct {
		name      string
		headers   access.Headers
		peer      string
		forwarded func(i int) string
		refused   bool
	}{
		{"users of one proxy", trusted, "10.0.0.1:1", func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, false},
		{"users of two", trusted, "10.0.0.1:1", func(i int) string { return fmt.Sprintf("203.0.113.%d, 10.0.0.2", i) }, false},
		{"one who writes what others say", trusted, "10.0.0.1:1", func(i int) string { return fmt.Sprintf("203.0.113.%d, 198.51.100.1", i) }, true},
		{"a proxy that is not trusted", trusted, "198.51.100.1:1", func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, true},
		{"nonsense", trusted, "10.0.0.1:1", func(i int) string { return fmt.Sprintf("203.0.113.%d, nonsense", i) }, true},
		{"loopback by default", access.Headers{}, "127.0.0.1:1", func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, true},
	} {
		b := w.browser(w.authenticator(access.Options{Headers: test.headers}))
		b.peer = test.peer
		var err error
		for i := range 11 {
			_, err = b.authenticator.SignIn(httptest.NewRecorder(), b.request("POST", "/signin", "X-Forwarded-For: "+test.forwarded(i)), "guess")
		}
		if _, refused := errors.AsType[access.TooManyAttemptsError](err); refused != test.refused {
			t.Errorf("%s: %v", test.name, err)
		}
	}
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
	if err != nil || !v.User.OwnCredentials || v.CSRF == "" {
		t.Errorf("%+v, %v", v, err)
	}
	for range 20 {
		_, err = other.signIn("guess")
	}
	if !errors.Is(err, userclient.ErrBadToken) {
		t.Error(err)
	}
	if _, err := owner.signIn(token); err != nil {
		t.Errorf("others delay the owner: %v", err)
	}
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
		{"from loopback", headers, "127.0.0.1:1", []string{"X-Forwarded-User: ann"}, "ann [] map[]"},
		{"from loopback, IPv6", headers, "[::1]:1", []string{"X-Forwarded-User: ann"}, "ann [] map[]"},
		{"from elsewhere", headers, "203.0.113.9:1", []string{"X-Forwarded-User: ann"}, "signed out"},
		{"from elsewhere, saying otherwise", headers, "203.0.113.9:1", []string{"X-Forwarded-User: ann", "X-Forwarded-For: 127.0.0.1"}, "signed out"},
		{"from who is trusted", far, "203.0.113.9:1", []string{"X-Forwarded-User: ann"}, "ann [] map[]"},
		{"from who is trusted, mapped", far, "[::ffff:203.0.113.9]:1", []string{"X-Forwarded-User: ann"}, "ann [] map[]"},
		{"loopback is not trusted then", far, "127.0.0.1:1", []string{"X-Forwarded-User: ann"}, "signed out"},
		{"groups", headers, "127.0.0.1:1", []string{"X-Forwarded-User: ann", "X-Forwarded-Groups: a, b,", "X-Forwarded-Groups: c"}, "ann [a b c] map[]"},
		{"groups of the cluster", headers, "127.0.0.1:1", []string{"X-Forwarded-User: ann", "X-Forwarded-Groups: system:masters,a,system:authenticated,system:nodes"}, "ann [a system:authenticated] map[]"},
		// Fault S10: a directory could name users and groups of the cluster.
		{"prefixes", access.Headers{User: "X-Forwarded-User", Groups: "X-Forwarded-Groups", UserPrefix: "sso:", GroupsPrefix: "sso:"}, "127.0.0.1:1",
			[]string{"X-Forwarded-User: ann", "X-Forwarded-Groups: cluster-admins,system:masters,system:authenticated"}, "sso:ann [sso:cluster-admins system:authenticated] map[]"},
		{"a user of the cluster with a prefix", access.Headers{User: "X-Forwarded-User", UserPrefix: "sso:"}, "127.0.0.1:1", []string{"X-Forwarded-User: system:admin"}, "wrong speaker"},
		{"a user of the cluster", headers, "127.0.0.1:1", []string{"X-Forwarded-User: system:admin"}, "wrong speaker"},
		{"no user", headers, "127.0.0.1:1", []string{"X-Forwarded-Groups: a"}, "signed out"},
		{"a token", headers, "127.0.0.1:1", []string{"Authorization: Bearer token-of-bob"}, "bob [] map[] with token-of-bob"},
		{"a token counts more than a name", headers, "127.0.0.1:1", []string{"Authorization: bearer token-of-bob", "X-Forwarded-User: ann"}, "bob [] map[] with token-of-bob"},
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
				if got = fmt.Sprint(v.User.Name, v.User.Groups, v.User.Extra); v.User.Token != "" {
					got += " with " + v.User.Token
				}
				got = strings.Replace(got, v.User.Name+"[", v.User.Name+" [", 1)
				if v.User.OwnCredentials || v.CSRF == "" {
					t.Errorf("%+v", v)
				}
			}
			if got = strings.Replace(got, "]map", "] map", 1); got != test.want {
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

func TestForwardedTokensAreReverified(t *testing.T) {
	w := newTestEnv(t)
	b := w.browser(w.authenticator(access.Options{Headers: access.Headers{User: "X-Forwarded-User"}}))
	b.peer = "127.0.0.1:1"
	const header = "Authorization: Bearer token-of-bob"
	b.expect("bob", "at first", header)
	delete(w.tokens, "token-of-bob")
	b.expect("bob", "just verified", header)
	w.now = w.now.Add(4 * time.Minute)
	b.expect("expired", "later", header)
}

func TestCheckWrite(t *testing.T) {
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{})
	b := w.browser(authenticator)
	v := must.Get(b.signIn("token-of-ann")).In(t)
	other := must.Get(w.browser(authenticator).signIn("token-of-ann")).In(t)
	for _, test := range []struct {
		name    string
		form    string
		headers []string
		ok      bool
	}{
		{"a form", v.CSRF, nil, true},
		{"a header", "", []string{"X-CSRF-Token: " + v.CSRF}, true},
		{"a form of this origin", v.CSRF, []string{"Origin: http://dashboard.example.org"}, true},
		{"a form of this site", v.CSRF, []string{"Sec-Fetch-Site: same-origin"}, true},
		{"nothing", "", nil, false},
		{"a guess", "guess", nil, false},
		{"that of another session", other.CSRF, nil, false},
		{"a header that counts first", v.CSRF, []string{"X-CSRF-Token: guess"}, false},
		{"another origin", v.CSRF, []string{"Origin: http://evil.example.org"}, false},
		{"another site", v.CSRF, []string{"Sec-Fetch-Site: cross-site"}, false},
		{"a neighbour", v.CSRF, []string{"Sec-Fetch-Site: same-site"}, false},
	} {
		r := b.request("POST", "/", test.headers...)
		r.PostForm = url.Values{"csrf": {test.form}}
		if err := authenticator.CheckWrite(r, v); (err == nil) != test.ok || err != nil && !errors.Is(err, access.ErrCrossSite) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	r := b.request("POST", "/")
	if err := authenticator.CheckWrite(r, &access.Identity{}); err == nil {
		t.Error("a visitor without a token may write without one")
	}
}

// Each response has another valid CSRF token. Fault S10: a constant token can be guessed from
// the size of compressed pages (BREACH).
func TestCSRFTokensAreMasked(t *testing.T) {
	w := newTestEnv(t)
	for name, authenticator := range map[string]*access.Authenticator{"session": w.authenticator(access.Options{}), "private": w.authenticator(access.Options{Token: "token-of-ann"}), "proxy": w.authenticator(access.Options{Headers: access.Headers{User: "X-Forwarded-User"}})} {
		b := w.browser(authenticator)
		b.peer = "127.0.0.1:1"
		headers := []string{"Host: 127.0.0.1", "X-Forwarded-User: ann"}
		if name != "proxy" {
			must.Get(b.signIn("token-of-ann")).In(t)
		}
		seen := map[string]bool{}
		for range 20 {
			v := must.Get(authenticator.Authenticate(b.request("GET", "/", headers...))).In(t)
			for token := range seen {
				if strings.HasPrefix(token, v.CSRF[:8]) || strings.HasSuffix(token, v.CSRF[len(v.CSRF)-8:]) {
					t.Errorf("%s: %s and %s have a part in common", name, token, v.CSRF)
				}
			}
			seen[v.CSRF] = true
			for token := range seen {
				if err := authenticator.CheckWrite(b.request("POST", "/", append(headers, "X-CSRF-Token: "+token)...), v); err != nil {
					t.Errorf("%s: a token of a page before: %v", name, err)
				}
				for _, changed := range []string{token[1:], token + token, token[:len(token)/2], "!" + token[1:], strings.Repeat("A", len(token)), "A"} {
					if err := authenticator.CheckWrite(b.request("POST", "/", append(headers, "X-CSRF-Token: "+changed)...), v); !errors.Is(err, access.ErrCrossSite) {
						t.Errorf("%s: %s: %v", name, changed, err)
					}
				}
			}
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
