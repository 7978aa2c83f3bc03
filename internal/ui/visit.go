package ui

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// visit is one request and its answer.
type visit struct {
	*Server
	w http.ResponseWriter
	r *http.Request
	// visitor is who it is; nil for who has not signed in, on a public page.
	visitor *access.Visitor
	// api is the API server as the visitor sees it; nil without a visitor.
	api *asuser.Client
	// doubt is what keeps us from knowing what the visitor may see.
	doubt doubt
}

// How much may be sent, in bytes, and how long that may take: a draft of the largest
// object that the API server takes, with each byte written as three; what buttons send;
// by a visitor who has not signed in, enough for a token.
const (
	maxDraft      = 16 << 20
	maxForm       = 64 << 10
	maxPublicForm = 32 << 10
	formLimit     = 2 * time.Minute
)

func (v *visit) context() context.Context { return v.r.Context() }

// path is the value of a part of the route's pattern, such as "name".
func (v *visit) path(name string) string { return v.r.PathValue(name) }

// query is a parameter of the URL, without spaces around it.
func (v *visit) query(name string) string { return strings.TrimSpace(v.r.URL.Query().Get(name)) }

// field is a value of a form that was sent.
func (v *visit) field(name string) string { return v.r.PostFormValue(name) }

// here is the path and the query of this page.
func (v *visit) here() string { return v.r.URL.RequestURI() }

// enter finds out who visits. An error says why they may not.
func (v *visit) enter(to route) error {
	limit := int64(maxForm)
	switch {
	case to.public:
		limit = maxPublicForm
	case to.draft != nil:
		limit = maxDraft
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, limit)
	visitor, err := v.gate.Visitor(v.r)
	if err != nil {
		if to.public && !errors.Is(err, access.ErrHost) {
			return nil
		}
		return err
	}
	v.visitor = visitor
	v.api, err = v.options.Cluster.As(visitor.User)
	return err
}

// receive reads what is sent to a route that changes something. What drafts may take,
// in memory and in time, is only for visitors with the right to store them, and only for
// some drafts at a time. The request is over when done is called.
func (v *visit) receive(to route) (done func(), err error) {
	done = func() {}
	if to.public || v.r.Method == http.MethodGet || v.r.Method == http.MethodHead {
		return done, nil
	}
	if to.draft != nil {
		user := v.visitor.User.Name
		if !v.drafts.open(user) {
			return nil, tooManyDrafts()
		}
		done = func() { v.drafts.close(user) }
		// If it is not known whether they may, it is asked again with what was sent at hand.
		if err := to.draft(v); err != nil && !unreachable(err) && v.doubt.reason() == nil {
			done()
			return nil, err
		}
	}
	if err := v.checkWrite(); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// checkWrite refuses what may come from elsewhere. Then the form has been read, and what
// is done with it may take longer.
func (v *visit) checkWrite() error {
	if err := readUntil(v.w, time.Now().Add(formLimit)); err != nil {
		return err
	}
	if err := v.gate.CheckWrite(v.r, v.visitor); err != nil {
		return err
	}
	return readUntil(v.w, time.Time{})
}

// own says that requests are made as the process itself: nobody has to sign in.
func (v *visit) own() bool { return v.visitor != nil && v.visitor.User.Own }

// may asks whether the visitor has a right, as asuser.Client.May does. Nobody is
// asked about the rights of the process itself. Where nobody can say, it is no for now,
// and in doubt: no page is shown that was made so.
func (v *visit) may(verb string, kind inspect.Kind, namespace, name string) bool {
	if v.own() {
		return true
	}
	if v.doubt.reason() != nil {
		return false // One answer that does not come is enough to wait for.
	}
	allowed, err := v.api.May(v.context(), verb, kind, namespace, name)
	v.doubt.note(err)
	return allowed
}

// within says that a page has all of this one already, and takes no more of it than what
// has an id.
func (v *visit) within(id string) bool {
	return v.r.Header.Get("Hx-Request") != "" && v.r.Header.Get("Hx-Target") == id && v.r.Header.Get("Hx-History-Restore-Request") == ""
}

// live says that a page asks for itself, since something has changed.
func (v *visit) live() bool { return v.r.Header.Get("X-Live") != "" }

// stays says that a form was sent by a script whose page is to stay as it is.
func (v *visit) stays() bool { return v.r.Header.Get("Hx-Request") != "" && v.field("stay") != "" }

// redirect leads on to another page, after a form was sent.
func (v *visit) redirect(to string) error {
	if v.stays() {
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// flashCookie holds what the next page says.
const flashCookie = "setpoint-flash"

// flash has the next page say something, once: what came of what was asked for. A page
// that stays says it itself.
func (v *visit) flash(text string) {
	if v.stays() {
		said, _ := json.Marshal(map[string]string{"said": text}) //nolint:errchkjson // Text can always be encoded.
		v.w.Header().Set("Hx-Trigger", string(said))
		return
	}
	v.setFlash(base64.RawURLEncoding.EncodeToString([]byte(text)), 60)
}

func (v *visit) setFlash(value string, seconds int) {
	//nolint:gosec // It is for HTTPS alone where there is HTTPS, and says nothing secret.
	http.SetCookie(v.w, &http.Cookie{
		Name: flashCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: v.r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// takeFlash is what the page before wants said; "" for nothing.
func (v *visit) takeFlash() string {
	cookie, err := v.r.Cookie(flashCookie)
	if err != nil || cookie.Value == "" {
		return ""
	}
	v.setFlash("", -1)
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	return string(text)
}
