package web

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

type signInPage struct {
	// ReturnURL is the page to return to.
	ReturnURL string
	// Expired reports that a session ended, Lost that a form was not processed.
	Expired, Lost bool
	// Private reports that the token is that of the session of development.
	Private bool
	// Problem is why sign-in failed.
	Problem string
}

// redirectIfSignedOut redirects to sign-in and reports whether it did. A session ends when the
// API server rejects its token.
func (req *Request) redirectIfSignedOut(err error) bool {
	expired := errors.Is(err, access.ErrExpired)
	if apierrors.IsUnauthorized(err) && req.User != nil && req.Authenticator.UsesSignIn(req.R) {
		req.Authenticator.SignOut(req.W, req.R)
		expired = true
	}
	if !expired && !errors.Is(err, access.ErrSignedOut) {
		return false
	}
	// The user followed a link of another site, so that the browser omits the cookie. It has it when the page reloads.
	if from := req.R.Header; !expired && req.R.Method == http.MethodGet && from.Get("Sec-Fetch-Site") == "cross-site" &&
		from.Get("Sec-Fetch-Mode") == "navigate" {
		req.W.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(req.W, `<!doctype html><html lang="en"><meta http-equiv="refresh" content="0"><title>Setpoint</title></html>`)
		return true
	}
	req.redirectToSignIn(expired)
	return true
}

// redirectToSignIn redirects to the sign-in page, in the way that the client understands.
func (req *Request) redirectToSignIn(expired bool) {
	query := url.Values{"return": {req.returnURL()}}
	if expired {
		query.Set("expired", "yes")
	}
	if req.R.Method != http.MethodGet && req.R.URL.Path != "/signout" {
		query.Set("lost", "yes")
	}
	to := "/signin?" + query.Encode()
	if req.IsHTMX() {
		req.W.Header().Set("Hx-Redirect", to)
		req.W.WriteHeader(http.StatusUnauthorized)
		return
	}
	if req.R.URL.Path == "/live" {
		req.W.Header().Set("Content-Type", "text/event-stream")
		_, _ = req.W.Write([]byte("event: expired\ndata:\n\n"))
		return
	}
	http.Redirect(req.W, req.R, to, http.StatusSeeOther)
}

// returnURL returns the page to show after sign-in: this page, or the page that sent the form.
func (req *Request) returnURL() string {
	from, err := url.Parse(cmp.Or(req.R.Header.Get("Hx-Current-Url"), req.R.Referer()))
	switch {
	case req.R.Method == http.MethodGet && !req.IsHTMX():
		return req.R.URL.RequestURI()
	case err != nil || from.Host != req.R.Host:
		return "/"
	}
	return localPath(from.RequestURI())
}

func showSignIn(req *Request) error {
	back := localPath(req.Query("return"))
	if req.User != nil {
		return req.Redirect(back)
	}
	return req.renderSignIn(http.StatusOK, signInPage{
		ReturnURL: back, Expired: req.Query("expired") != "", Lost: req.Query("lost") != "",
	})
}

func (req *Request) renderSignIn(status int, data signInPage) error {
	data.Private = req.Authenticator.IsPrivate()
	return req.Render(Page{Name: "signin", Title: "Sign in", Static: true, Status: status, Data: data})
}

func signIn(req *Request) error {
	if err := access.CheckWrite(req.R); err != nil {
		return err
	}
	back := localPath(req.Field("return"))
	err := req.Authenticator.SignIn(req.W, req.R, req.Field("token"))
	switch {
	case err == nil:
		return req.Redirect(back)
	case !errors.Is(err, userclient.ErrBadToken):
		return req.renderSignIn(http.StatusServiceUnavailable, signInPage{ReturnURL: back, Problem: format.Capitalize(err.Error()) + "."})
	}
	data := signInPage{
		ReturnURL: back, Problem: "The API server does not accept this token. It may have expired, or belong to another cluster.",
	}
	if req.Authenticator.IsPrivate() {
		data.Problem = "This is not the token of this session."
	}
	return req.renderSignIn(http.StatusUnauthorized, data)
}

func signOut(req *Request) error {
	req.Authenticator.SignOut(req.W, req.R)
	return req.Redirect("/signin")
}

// extendSession keeps a session alive while the user types.
func extendSession(req *Request) error {
	req.W.WriteHeader(http.StatusNoContent)
	return nil
}

// localPath returns path if it is a path of the dashboard, and "/" otherwise.
func localPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
