package dashboard

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// request is one request and its answer.
type request struct {
	*Server
	w http.ResponseWriter
	r *http.Request
	// identity is who it is; nil for who has not signed in, on a public page.
	identity *access.Identity
	// api is the API server as the visitor sees it; nil without a visitor.
	api *userclient.Client
	// accessErrors is what keeps us from knowing what the visitor may see.
	accessErrors accessErrors
}

// How much may be sent, in bytes, and how long that may take: a draft of the largest
// object that the API server takes, with each byte written as three; what buttons send;
// by a visitor who has not signed in, enough for a token.
const (
	maxDraftBytes      = 16 << 20
	maxFormBytes       = 64 << 10
	maxPublicFormBytes = 32 << 10
	formTimeout        = 2 * time.Minute
)

func (req *request) context() context.Context { return req.r.Context() }

// path is the value of a part of the route's pattern, such as "name".
func (req *request) path(name string) string { return req.r.PathValue(name) }

// query is a parameter of the URL, without spaces around it.
func (req *request) query(name string) string { return strings.TrimSpace(req.r.URL.Query().Get(name)) }

// field is a value of a form that was sent.
func (req *request) field(name string) string { return req.r.PostFormValue(name) }

// requestURI is the path and the query of this page.
func (req *request) requestURI() string { return req.r.URL.RequestURI() }

// authenticate finds out who visits. An error says why they may not.
func (req *request) authenticate(to route) error {
	limit := int64(maxFormBytes)
	switch {
	case to.public:
		limit = maxPublicFormBytes
	case to.checkDraft != nil:
		limit = maxDraftBytes
	}
	req.r.Body = http.MaxBytesReader(req.w, req.r.Body, limit)
	visitor, err := req.authenticator.Authenticate(req.r)
	if err != nil {
		if to.public && !errors.Is(err, access.ErrHost) {
			return nil
		}
		return err
	}
	req.identity = visitor
	req.api, err = req.options.Cluster.As(visitor.User)
	return err
}

// receiveForm reads what is sent to a route that changes something. What drafts may take,
// in memory and in time, is only for visitors with the right to store them, and only for
// some drafts at a time. The request is over when done is called.
func (req *request) receiveForm(to route) (done func(), err error) {
	done = func() {}
	if to.public || req.r.Method == http.MethodGet || req.r.Method == http.MethodHead {
		return done, nil
	}
	if to.checkDraft != nil {
		user := req.identity.User.Name
		if !req.drafts.acquire(user) {
			return nil, tooManyDrafts()
		}
		done = func() { req.drafts.release(user) }
		// If it is not known whether they may, it is asked again with what was sent at hand.
		if err := to.checkDraft(req); err != nil && !isUnreachable(err) && req.accessErrors.first() == nil {
			done()
			return nil, err
		}
	}
	if err := req.checkWrite(); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// checkWrite refuses what may come from elsewhere. Then the form has been read, and what
// is done with it may take longer.
func (req *request) checkWrite() error {
	if err := setReadDeadline(req.w, time.Now().Add(formTimeout)); err != nil {
		return err
	}
	if err := req.authenticator.CheckWrite(req.r, req.identity); err != nil {
		return err
	}
	return setReadDeadline(req.w, time.Time{})
}

// usesOwnCredentials says that requests are made as the process itself: nobody has to sign in.
func (req *request) usesOwnCredentials() bool {
	return req.identity != nil && req.identity.User.OwnCredentials
}

// can asks whether the visitor has a right, as asuser.Client.May does. Nobody is
// asked about the rights of the process itself. Where nobody can say, it is no for now,
// and in doubt: no page is shown that was made so.
func (req *request) can(verb string, kind model.Kind, namespace, name string) bool {
	if req.usesOwnCredentials() {
		return true
	}
	if req.accessErrors.first() != nil {
		return false // One answer that does not come is enough to wait for.
	}
	allowed, err := req.api.CanI(req.context(), verb, kind, namespace, name)
	req.accessErrors.record(err)
	return allowed
}

// targets says that a page has all of this one already, and takes no more of it than what
// has an id.
func (req *request) targets(id string) bool {
	return req.r.Header.Get("Hx-Request") != "" && req.r.Header.Get("Hx-Target") == id && req.r.Header.Get("Hx-History-Restore-Request") == ""
}

// isLiveRefresh says that a page asks for itself, since something has changed.
func (req *request) isLiveRefresh() bool { return req.r.Header.Get("X-Live") != "" }

// staysOnPage says that a form was sent by a script whose page is to stay as it is.
func (req *request) staysOnPage() bool {
	return req.r.Header.Get("Hx-Request") != "" && req.field("stay") != ""
}

// redirect leads on to another page, after a form was sent.
func (req *request) redirect(to string) error {
	if req.staysOnPage() {
		req.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	http.Redirect(req.w, req.r, to, http.StatusSeeOther)
	return nil
}

// flashCookie holds what the next page says.
const flashCookie = "setpoint-flash"

// flash has the next page say something, once: what came of what was asked for. A page
// that stays says it itself.
func (req *request) flash(text string) {
	if req.staysOnPage() {
		message, _ := json.Marshal(map[string]string{"toast": text}) //nolint:errchkjson // Text can always be encoded.
		req.w.Header().Set("Hx-Trigger", string(message))
		return
	}
	req.setFlash(base64.RawURLEncoding.EncodeToString([]byte(text)), 60)
}

func (req *request) setFlash(value string, seconds int) {
	//nolint:gosec // It is for HTTPS alone where there is HTTPS, and says nothing secret.
	http.SetCookie(req.w, &http.Cookie{
		Name: flashCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: req.r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// takeFlash is what the page before wants said; "" for nothing.
func (req *request) takeFlash() string {
	cookie, err := req.r.Cookie(flashCookie)
	if err != nil || cookie.Value == "" {
		return ""
	}
	req.setFlash("", -1)
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	return string(text)
}
