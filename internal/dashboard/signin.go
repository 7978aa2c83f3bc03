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
