package access_test

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Each ended session is reported, since caches of its user contain the token.
func TestOnSessionEnd(t *testing.T) {
	var gone []string
	report := func(u userclient.User) { gone = append(gone, u.Token) }
	reported := func(t *testing.T, when string, want ...string) {
		t.Helper()
		if !slices.Equal(gone, want) {
			t.Errorf("%s: reported %v", when, gone)
		}
		gone = nil
	}
	t.Run("signed out", func(t *testing.T) {
		w := newTestEnv(t)
		b := w.browser(w.authenticator(access.Options{OnSessionEnd: report}))
		must.Succeed(t, b.signIn("token-of-ann"))
		reported(t, "signed in")
		must.Succeed(t, b.signIn("token-of-bob"))
		reported(t, "signed in as another user", "token-of-ann")
		b.authenticator.SignOut(httptest.NewRecorder(), b.request("POST", "/signout"))
		reported(t, "signed out", "token-of-bob")
	})
	t.Run("at the next request of another user", func(t *testing.T) {
		w := newTestEnv(t)
		authenticator := w.authenticator(access.Options{OnSessionEnd: report})
		ann, bob := w.browser(authenticator), w.browser(authenticator)
		must.Succeed(t, ann.signIn("token-of-ann"))
		w.now = w.now.Add(20 * time.Minute)
		must.Succeed(t, bob.signIn("token-of-bob"))
		w.now = w.now.Add(20 * time.Minute)
		bob.expect("bob", "not idle")
		reported(t, "idle", "token-of-ann")
	})
}

func TestSessionEvictionIsPerUser(t *testing.T) {
	w := newTestEnv(t)
	authenticator := w.authenticator(access.Options{})
	ann, first := w.browser(authenticator), w.browser(authenticator)
	must.Succeed(t, ann.signIn("token-of-ann"))
	for i := range 60 {
		bob := w.browser(authenticator)
		if i == 0 {
			bob = first
		}
		w.now = w.now.Add(time.Second)
		must.Succeed(t, bob.signIn("token-of-bob"))
		if i == 19 {
			first.expect("bob", "one of a few")
		}
	}
	ann.expect("ann", "while another user signs in")
	first.expect("expired", "the oldest of too many of one user")
}
