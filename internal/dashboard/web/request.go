// Package web is what all pages of the dashboard share: requests of users with their permissions, routes, rendering, lists,
// actions, links, problems and sign-in.
//
// It knows no page. Styles and scripts are in package dashboard, templates in dashboard/templates.
package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Site is what all requests share.
type Site struct {
	Cluster       *userclient.Cluster
	Processes     *processes.Set
	Authenticator *access.Authenticator
	Log           *slog.Logger
	Now           func() time.Time
	// Version is the version of Setpoint.
	Version   string
	Templates Templates
	Assets    Assets
	// Handler serves the routes: see ServeRoutes.
	Handler http.Handler
}

// SetReadDeadline sets the read deadline of the connection; the zero Time removes it.
func SetReadDeadline(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// Request is one request and its response.
type Request struct {
	*Site
	W http.ResponseWriter
	R *http.Request
	// User is nil on public pages without a session.
	User *userclient.User
	// API is the API server as the user; nil without a user.
	API *userclient.Client
	// accessErr is the first error of an access review.
	accessErr atomic.Pointer[error]
}

// Limits of request bodies: drafts hold the largest object that the API server takes, with each
// byte escaped as three; other forms and sign-in are small.
const (
	maxDraftBytes      = 16 << 20
	maxFormBytes       = 64 << 10
	maxPublicFormBytes = 32 << 10
	formTimeout        = 2 * time.Minute
)

// Context ends when the client leaves.
func (req *Request) Context() context.Context { return req.R.Context() }

// Path returns a path parameter of the route, such as "name".
func (req *Request) Path(name string) string { return req.R.PathValue(name) }

// PathKind returns the kind that the path of the page names.
func (req *Request) PathKind() (object.Kind, error) {
	return req.API.FindCurrentKind(req.Context(), req.Path("resource"))
}

// Query returns a trimmed query parameter.
func (req *Request) Query(name string) string { return strings.TrimSpace(req.R.URL.Query().Get(name)) }

// Field returns a form field.
func (req *Request) Field(name string) string { return req.R.PostFormValue(name) }

// CheckWrite rejects cross-site requests and reads the form. The work afterwards has no deadline.
func (req *Request) CheckWrite() error {
	if err := SetReadDeadline(req.W, time.Now().Add(formTimeout)); err != nil {
		return err
	}
	if err := access.CheckWrite(req.R); err != nil {
		return err
	}
	return SetReadDeadline(req.W, time.Time{})
}

// UsesOwnCredentials reports whether requests use the credentials of the process, so that no sign-in is needed.
func (req *Request) UsesOwnCredentials() bool {
	return req.User != nil && req.User.OwnCredentials
}

// Can reports whether the user may do something. If that is unknown it records the error, so
// that no page is shown, and returns false.
func (req *Request) Can(verb string, kind object.Kind, namespace, name string) bool {
	if req.UsesOwnCredentials() {
		return true
	}
	if req.AccessError() != nil {
		return false // One timeout is enough.
	}
	allowed, err := req.API.CanI(req.Context(), verb, kind, namespace, name)
	req.NoteAccess(err)
	return allowed
}

// NoteAccess notes the error of an access review. A page with one is not shown, since it may lack
// what the user may see. A user who may not create access reviews has no permissions.
func (req *Request) NoteAccess(err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		req.accessErr.CompareAndSwap(nil, &err)
	}
}

// AccessError returns why the permissions of the user are unknown; nil if they are known.
func (req *Request) AccessError() error {
	if err := req.accessErr.Load(); err != nil {
		return *err
	}
	return nil
}

// IsHTMX reports whether a script of the page made the request.
func (req *Request) IsHTMX() bool { return req.R.Header.Get("Hx-Request") != "" }

// IsFragment reports whether htmx requests a part of the page.
func (req *Request) IsFragment() bool {
	return req.IsHTMX() && req.R.Header.Get("Hx-History-Restore-Request") == ""
}

// Targets reports whether htmx replaces only the element with the ID.
func (req *Request) Targets(id string) bool {
	return req.IsFragment() && req.R.Header.Get("Hx-Target") == id
}

// staysOnPage reports whether a script sent the form and the page stays open.
func (req *Request) staysOnPage() bool {
	return req.IsHTMX() && req.Field("stay") != ""
}

// Redirect leads to another page after a form.
func (req *Request) Redirect(to string) error {
	if req.staysOnPage() {
		req.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	http.Redirect(req.W, req.R, to, http.StatusSeeOther)
	return nil
}

const flashCookie = "setpoint-flash"

// Flash shows a message once, on the next page or on the page that stays open.
func (req *Request) Flash(text string) {
	if req.staysOnPage() {
		message, _ := json.Marshal(map[string]string{"toast": text}) //nolint:errchkjson // Text can always be encoded.
		req.W.Header().Set("Hx-Trigger", string(message))
		return
	}
	req.setFlash(base64.RawURLEncoding.EncodeToString([]byte(text)), 60)
}

func (req *Request) setFlash(value string, seconds int) {
	//nolint:gosec // The cookie is Secure where HTTPS is used, and holds no secret.
	http.SetCookie(req.W, &http.Cookie{
		Name: flashCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: req.R.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

func (req *Request) takeFlash() string {
	cookie, err := req.R.Cookie(flashCookie)
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

// Source returns a process by name.
func (req *Request) Source(process string) (inspect.Source, error) {
	if source, known := req.Processes.Source(req.Context(), process); known {
		return source, nil
	}
	return nil, NotFound("Process %s is unknown or has stopped.", process)
}

// Controller returns a controller that the user may see, and its process. What a process that does not respond said last counts.
func (req *Request) Controller(process, name string) (*processes.Info, *inspect.Controller, error) {
	source, err := req.Source(process)
	if err != nil {
		return nil, nil, err
	}
	t, err := req.Processes.FetchOne(req.Context(), source)
	if err != nil {
		return nil, nil, err
	}
	name = strings.ReplaceAll(name, "~", "/") // See ControllerURL.
	for i := range t.Controllers {
		if c := &t.Controllers[i]; c.Name == name && inspect.CanView(c, req.Can) {
			return &t, c, nil
		}
	}
	return nil, nil, cmp.Or(req.AccessError(), NotFound("Process %s runs no controller %s, or you cannot get it.", process, name))
}

// RefFromURL returns the object in the URL.
func (req *Request) RefFromURL() (object.Ref, error) {
	kind, err := req.PathKind()
	if err != nil {
		return object.Ref{}, err
	}
	ref := object.Ref{Kind: kind, Namespace: req.Path("namespace"), Name: req.Path("name")}
	if ref.Namespace == noNamespace {
		ref.Namespace = ""
	}
	if kind.Namespaced != (ref.Namespace != "") {
		return ref, NotFound("%s are %s.", kind.Plural, map[bool]string{true: "namespaced", false: "cluster-scoped"}[kind.Namespaced])
	}
	return ref, nil
}

// CanRead reports whether the user may get objects of a kind. The plural of the kind may be
// empty. Users who may in all namespaces need one access review for a list, not one per namespace.
func (req *Request) CanRead(kind object.Kind, namespace string) bool {
	return req.Can("get", kind, "", "") || namespace != "" && req.Can("get", kind, namespace, "")
}

// Refusal returns a message if the user may not do something.
func (req *Request) Refusal(verb string, ref object.Ref) string {
	if req.Can(verb, ref.Kind, ref.Namespace, ref.Name) {
		return ""
	}
	return Forbidden(verb, ref.Kind, ref.Namespace)
}
