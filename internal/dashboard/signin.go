package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// signInPage is what the page of signing in shows.
type signInPage struct {
	// ReturnURL is the page to go to then.
	ReturnURL string
	// Expired says that there was a session, which has ended, Unknown that it may also be
	// one of another process, and Lost that something was sent since, which was not done.
	Expired, Unknown, Lost bool
	// Problem is why it did not work; "" at first.
	Problem string
}

// redirectIfSignedOut leads who has to sign in to where that is done. A session whose token the
// API server does not accept any more is over.
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

// isCrossSiteNavigation reports whether a link of another site was followed. Browsers keep
// the session to themselves then, as if there were none.
func (req *request) isCrossSiteNavigation() bool {
	return req.r.Method == http.MethodGet && req.r.Header.Get("Sec-Fetch-Site") == "cross-site" && req.r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// reloadPage has the browser load the page again, coming from here.
func (req *request) reloadPage() {
	req.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = req.w.Write([]byte("<!doctype html><html lang=\"en\"><meta http-equiv=\"refresh\" content=\"0\"><title>Setpoint</title></html>"))
}

// redirectToSignIn leads to the page of signing in. A script is told so in its own way.
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
	if req.r.Header.Get("Hx-Request") != "" {
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

// returnURL is where the visitor is to be afterwards: the page itself, or for what is sent
// or loaded by a page, that one.
func (req *request) returnURL() string {
	from, err := url.Parse(cmp.Or(req.r.Header.Get("Hx-Current-Url"), req.r.Referer()))
	switch {
	case req.r.Method == http.MethodGet && req.r.Header.Get("Hx-Request") == "":
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
	data := signInPage{ReturnURL: back, Problem: capitalize(err.Error()) + "."}
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
	if bad {
		return req.renderSignIn(http.StatusUnauthorized, data)
	}
	return req.renderSignIn(http.StatusServiceUnavailable, data)
}

func signOut(req *request) error {
	req.authenticator.SignOut(req.w, req.r)
	return req.redirect("/signin")
}

// extendSession answers a page in which somebody types: that is a use of the session, too.
func extendSession(req *request) error {
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}

// localPath is a path of this window; the overview for what would lead elsewhere.
func localPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
