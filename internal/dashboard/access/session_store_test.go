package access_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Each ended session is reported, since caches of its user contain the token.
func TestOnSessionEnd(t *testing.T) {
	var mu sync.Mutex
	var gone []string
	report := func(u userclient.User) {
		mu.Lock()
		defer mu.Unlock()
		gone = append(gone, u.Token)
	}
	reported := func(t *testing.T, when string, want ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(gone, want) {
			t.Errorf("%s: reported %v", when, gone)
		}
		gone = nil
	}
	t.Run("signed out", func(t *testing.T) {
		w := newTestEnv(t)
		b := w.browser(w.authenticator(access.Options{OnSessionEnd: report}))
		must.Get(b.signIn("token-of-ann")).In(t)
		reported(t, "signed in")
		must.Get(b.signIn("token-of-bob")).In(t)
		reported(t, "signed in as another user", "token-of-ann")
		b.authenticator.SignOut(httptest.NewRecorder(), b.request("POST", "/signout"))
		reported(t, "signed out", "token-of-bob")
	})
	t.Run("with the token", func(t *testing.T) {
		w := newTestEnv(t)
		authenticator := w.authenticator(access.Options{OnSessionEnd: report, Headers: access.Headers{User: "X-Forwarded-User"}})
		b, proxied := w.browser(authenticator), w.browser(authenticator)
		proxied.peer = "127.0.0.1:1"
		must.Get(b.signIn("token-of-ann")).In(t)
		proxied.expect("bob", "by a proxy", "Authorization: Bearer token-of-bob")
		w.tokens = nil
		w.now = w.now.Add(4 * time.Minute)
		b.expect("expired", "revoked")
		reported(t, "revoked", "token-of-ann")
		proxied.expect("expired", "revoked", "Authorization: Bearer token-of-bob")
		reported(t, "revoked", "token-of-bob")
	})
	t.Run("with the user of the token", func(t *testing.T) {
		w := newTestEnv(t)
		b := w.browser(w.authenticator(access.Options{OnSessionEnd: report, Headers: access.Headers{User: "X-Forwarded-User"}}))
		b.peer = "127.0.0.1:1"
		b.expect("bob", "at first", "Authorization: Bearer token-of-bob")
		w.tokens["token-of-bob"] = "mallory"
		w.now = w.now.Add(4 * time.Minute)
		b.expect("mallory", "later", "Authorization: Bearer token-of-bob")
		reported(t, "another user", "token-of-bob")
	})
	t.Run("without requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newTestEnv(t)
			ended := make(chan string, 1)
			b := w.browser(access.New(access.Options{OnSessionEnd: func(u userclient.User) { ended <- u.Token }}, w.verify))
			must.Get(b.signIn("token-of-ann")).In(t)
			began := time.Now()
			token := <-ended
			if after := time.Since(began); token != "token-of-ann" || after < 30*time.Minute || after > 32*time.Minute {
				t.Errorf("reported %s after %s", token, after)
			}
			b.expect("expired", "unused")
		})
	})
}

func TestSessionEvictionIsPerUser(t *testing.T) {
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{})
	ann, first := w.browser(authenticator), w.browser(authenticator)
	must.Get(ann.signIn("token-of-ann")).In(t)
	for i := range 1200 {
		bob := w.browser(authenticator)
		if i == 0 {
			bob = first
		}
		w.now = w.now.Add(time.Second)
		must.Get(bob.signIn("token-of-bob")).In(t)
		if i == 19 {
			first.expect("bob", "one of a few")
		}
	}
	ann.expect("ann", "while another user signs in")
	first.expect("expired", "the oldest of too many of one user")
}

func TestSessionsOfOtherReplicas(t *testing.T) {
	w := newTestEnv(t)
	here, there := w.browser(w.authenticator(access.Options{})), w.browser(w.authenticator(access.Options{}))
	must.Get(there.signIn("token-of-ann")).In(t)
	here.cookies = there.cookies
	_, err := here.authenticator.Authenticate(here.request("GET", "/"))
	if err == nil || !strings.Contains(err.Error(), "another replica") {
		t.Errorf("a session of another process: %v", err)
	}
	here.cookies["setpoint"].Value = "nonsense"
	if _, err = here.authenticator.Authenticate(here.request("GET", "/")); err == nil || strings.Contains(err.Error(), "replica") {
		t.Errorf("nonsense: %v", err)
	}
}
