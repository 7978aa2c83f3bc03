package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/ui/access"
	"github.com/setpoint-dev/setpoint/internal/ui/cluster"
)

// signingIn is what the page of signing in shows.
type signingIn struct {
	// Return is the page to go to then.
	Return string
	// Expired says that there was a session, which has ended.
	Expired bool
	// Problem is why it did not work; "" at first.
	Problem string
}

// sendToSignIn leads to the page of signing in. A script is told so in its own way.
func (v *visit) sendToSignIn(expired bool) {
	query := url.Values{"return": {v.page()}}
	if expired {
		query.Set("expired", "yes")
	}
	to := "/signin?" + query.Encode()
	if v.r.Header.Get("HX-Request") != "" {
		v.w.Header().Set("HX-Redirect", to)
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
// from a page, the overview.
func (v *visit) page() string {
	if v.r.Method == http.MethodGet {
		return v.here()
	}
	return "/"
}

func askToSignIn(v *visit) error {
	back := local(v.query("return"))
	if v.visitor != nil {
		return v.redirect(back)
	}
	return v.showSignIn(http.StatusOK, signingIn{Return: back, Expired: v.query("expired") != ""})
}

func (v *visit) showSignIn(status int, data signingIn) error {
	return v.render(page{Name: "signin", Title: "Sign in", Still: true, Status: status, Data: data})
}

func signIn(v *visit) error {
	back := local(v.field("return"))
	if http.NewCrossOriginProtection().Check(v.r) != nil {
		return access.ErrForged
	}
	_, err := v.gate.SignIn(v.w, v.r, v.field("token"))
	if err == nil {
		return v.redirect(back)
	}
	data := signingIn{Return: back, Problem: title(err.Error()) + "."}
	if errors.Is(err, cluster.ErrBadToken) {
		data.Problem = "The API server does not accept this token. It may have expired, or be of another cluster."
		return v.showSignIn(http.StatusUnauthorized, data)
	}
	if _, often := errors.AsType[access.TooManyError](err); often {
		return v.showSignIn(http.StatusTooManyRequests, data)
	}
	return v.showSignIn(http.StatusBadGateway, data)
}

func signOut(v *visit) error {
	v.gate.SignOut(v.w, v.r)
	return v.redirect("/signin")
}

// local is a path of this window; the overview for what would lead elsewhere.
func local(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
