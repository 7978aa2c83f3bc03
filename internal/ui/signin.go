package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// signingIn is what the page of signing in shows.
type signingIn struct {
	// Return is the page to go to then.
	Return string
	// Expired says that there was a session, which has ended, Unknown that it may also be
	// one of another process, and Lost that something was sent since, which was not done.
	Expired, Unknown, Lost bool
	// Problem is why it did not work; "" at first.
	Problem string
}

// hasToSignIn leads who has to sign in to where that is done. A session whose token the
// API server does not accept any more is over.
func (v *visit) hasToSignIn(err error) bool {
	expired := errors.Is(err, access.ErrExpired)
	if apierrors.IsUnauthorized(err) && v.visitor != nil && v.gate.Signs(v.r) {
		v.gate.SignOut(v.w, v.r)
		expired = true
	}
	if !expired && !errors.Is(err, access.ErrSignedOut) {
		return false
	}
	if !expired && v.comesFromElsewhere() {
		v.comeAgain()
		return true
	}
	v.sendToSignIn(expired, errors.Is(err, access.ErrUnknown))
	return true
}

// comesFromElsewhere reports whether a link of another site was followed. Browsers keep
// the session to themselves then, as if there were none.
func (v *visit) comesFromElsewhere() bool {
	return v.r.Method == http.MethodGet && v.r.Header.Get("Sec-Fetch-Site") == "cross-site" && v.r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// comeAgain has the browser load the page again, coming from here.
func (v *visit) comeAgain() {
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = v.w.Write([]byte("<!doctype html><html lang=\"en\"><meta http-equiv=\"refresh\" content=\"0\"><title>Setpoint</title></html>"))
}

// sendToSignIn leads to the page of signing in. A script is told so in its own way.
func (v *visit) sendToSignIn(expired, unknown bool) {
	query := url.Values{"return": {v.page()}}
	switch {
	case unknown:
		query.Set("expired", "unknown")
	case expired:
		query.Set("expired", "yes")
	}
	if v.r.Method != http.MethodGet && v.r.URL.Path != "/signout" {
		query.Set("lost", "yes")
	}
	to := "/signin?" + query.Encode()
	if v.r.Header.Get("Hx-Request") != "" {
		v.w.Header().Set("Hx-Redirect", to)
		v.w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if v.r.URL.Path == "/live" {
		v.w.Header().Set("Content-Type", "text/event-stream")
		_, _ = v.w.Write([]byte("event: expired\ndata:\n\n"))
		return
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
}

// page is where the visitor is to be afterwards: the page itself, or for what is sent
// or loaded by a page, that one.
func (v *visit) page() string {
	from, err := url.Parse(cmp.Or(v.r.Header.Get("Hx-Current-Url"), v.r.Referer()))
	switch {
	case v.r.Method == http.MethodGet && v.r.Header.Get("Hx-Request") == "":
		return v.here()
	case err != nil || from.Host != v.r.Host:
		return "/"
	}
	return local(from.RequestURI())
}

func askToSignIn(v *visit) error {
	back := local(v.query("return"))
	if v.visitor != nil {
		return v.redirect(back)
	}
	return v.showSignIn(http.StatusOK, signingIn{
		Return: back, Expired: v.query("expired") != "", Unknown: v.query("expired") == "unknown", Lost: v.query("lost") != "",
	})
}

func (v *visit) showSignIn(status int, data signingIn) error {
	return v.render(page{Name: "signin", Title: "Sign in", Still: true, Status: status, Data: data})
}

func signIn(v *visit) error {
	if http.NewCrossOriginProtection().Check(v.r) != nil {
		return access.ErrForged
	}
	if err := v.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", access.ErrUnread, err)
	}
	back := local(v.field("return"))
	_, err := v.gate.SignIn(v.w, v.r, v.field("token"))
	if err == nil {
		return v.redirect(back)
	}
	data := signingIn{Return: back, Problem: title(err.Error()) + "."}
	bad := errors.Is(err, asuser.ErrBadToken)
	if bad {
		data.Problem = "The API server does not accept this token. It may have expired, or be of another cluster."
	}
	if often, ok := errors.AsType[access.TooManyError](err); ok {
		if bad {
			data.Problem += " So many were refused from your address that the next attempts are slowed down."
		}
		v.w.Header().Set("Retry-After", strconv.Itoa(int(often.Retry.Seconds())+1))
		return v.showSignIn(http.StatusTooManyRequests, data)
	}
	if bad {
		return v.showSignIn(http.StatusUnauthorized, data)
	}
	return v.showSignIn(http.StatusServiceUnavailable, data)
}

func signOut(v *visit) error {
	v.gate.SignOut(v.w, v.r)
	return v.redirect("/signin")
}

// stay answers a page in which somebody types: that is a use of the session, too.
func stay(v *visit) error {
	v.w.WriteHeader(http.StatusNoContent)
	return nil
}

// local is a path of this window; the overview for what would lead elsewhere.
func local(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
