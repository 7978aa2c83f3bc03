package dashboard

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// request is one request and its response.
type request struct {
	*Server
	w http.ResponseWriter
	r *http.Request
	// identity is the user; nil on public pages without a session.
	identity *access.Identity
	// api is the API server as the user; nil without a user.
	api *userclient.Client
	// accessErrors is why the permissions of the user are unknown.
	accessErrors accessErrors
}

// Limits of request bodies: drafts hold the largest object that the API server takes, with each
// byte escaped as three; other forms and sign-in are small.
const (
	maxDraftBytes      = 16 << 20
	maxFormBytes       = 64 << 10
	maxPublicFormBytes = 32 << 10
	formTimeout        = 2 * time.Minute
)

func (req *request) context() context.Context { return req.r.Context() }

// path returns a path parameter of the route, such as "name".
func (req *request) path(name string) string { return req.r.PathValue(name) }

// pathKind returns the kind that the path of the page names.
func (req *request) pathKind() (object.Kind, error) {
	return req.api.CurrentKind(req.context(), req.path("resource"))
}

// query returns a trimmed query parameter.
func (req *request) query(name string) string { return strings.TrimSpace(req.r.URL.Query().Get(name)) }

// field returns a form field.
func (req *request) field(name string) string { return req.r.PostFormValue(name) }

// requestURI returns the path and query of the page.
func (req *request) requestURI() string { return req.r.URL.RequestURI() }

// authenticate identifies the user. It returns an error if the user may not continue.
func (req *request) authenticate(to route) error {
	limit := int64(maxFormBytes)
	switch {
	case to.public:
		limit = maxPublicFormBytes
	case to.draft:
		limit = maxDraftBytes
	}
	req.r.Body = http.MaxBytesReader(req.w, req.r.Body, limit)
	identity, err := req.authenticator.Authenticate(req.r)
	if err != nil {
		if to.public && !errors.Is(err, access.ErrHost) {
			return nil
		}
		return err
	}
	req.identity = identity
	req.api, err = req.options.Cluster.As(identity.User)
	return err
}

// checkWrite rejects cross-site requests and reads the form. The work afterwards has no
// deadline.
func (req *request) checkWrite() error {
	if err := setReadDeadline(req.w, time.Now().Add(formTimeout)); err != nil {
		return err
	}
	if err := req.authenticator.CheckWrite(req.r, req.identity); err != nil {
		return err
	}
	return setReadDeadline(req.w, time.Time{})
}

// usesOwnCredentials reports whether requests use the credentials of the process, so that no
// sign-in is needed.
func (req *request) usesOwnCredentials() bool {
	return req.identity != nil && req.identity.User.OwnCredentials
}

// can reports whether the user may do something. If that is unknown it records the error, so
// that no page is shown, and returns false.
func (req *request) can(verb string, kind object.Kind, namespace, name string) bool {
	if req.usesOwnCredentials() {
		return true
	}
	if req.accessErrors.first() != nil {
		return false // One timeout is enough.
	}
	allowed, err := req.api.CanI(req.context(), verb, kind, namespace, name)
	req.accessErrors.record(err)
	return allowed
}

// isHTMX reports whether a script of the page made the request.
func (req *request) isHTMX() bool { return req.r.Header.Get("Hx-Request") != "" }

// isFragment reports whether htmx requests a part of the page.
func (req *request) isFragment() bool {
	return req.isHTMX() && req.r.Header.Get("Hx-History-Restore-Request") == ""
}

// targets reports whether htmx replaces only the element with the ID.
func (req *request) targets(id string) bool {
	return req.isFragment() && req.r.Header.Get("Hx-Target") == id
}

// staysOnPage reports whether a script sent the form and the page stays open.
func (req *request) staysOnPage() bool {
	return req.isHTMX() && req.field("stay") != ""
}

// redirect leads to another page after a form.
func (req *request) redirect(to string) error {
	if req.staysOnPage() {
		req.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	http.Redirect(req.w, req.r, to, http.StatusSeeOther)
	return nil
}

// flashCookie holds the message for the next page.
const flashCookie = "setpoint-flash"

// flash shows a message once, on the next page or on the page that stays open.
func (req *request) flash(text string) {
	if req.staysOnPage() {
		message, _ := json.Marshal(map[string]string{"toast": text}) //nolint:errchkjson // Text can always be encoded.
		req.w.Header().Set("Hx-Trigger", string(message))
		return
	}
	req.setFlash(base64.RawURLEncoding.EncodeToString([]byte(text)), 60)
}

func (req *request) setFlash(value string, seconds int) {
	//nolint:gosec // The cookie is Secure where HTTPS is used, and holds no secret.
	http.SetCookie(req.w, &http.Cookie{
		Name: flashCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: req.r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// takeFlash returns the message of the previous page; "" for none.
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

// source returns a process by name.
func (req *request) source(process string) (inspect.Source, error) {
	if source, known := req.processes.Source(req.context(), process); known {
		return source, nil
	}
	return nil, notFound("Process %s is unknown or has stopped.", process)
}

// noNamespace replaces the namespace of cluster-scoped objects in URLs.
const noNamespace = "-"

// controllerURL returns the page of a controller.
func controllerURL(process, name string) string {
	return "/controllers/" + url.PathEscape(process) + "/" + url.PathEscape(slug(name))
}

// slug returns a controller name as a path segment.
func slug(name string) string { return strings.ReplaceAll(name, "/", "~") }

// unslug reverses slug.
func unslug(text string) string { return strings.ReplaceAll(text, "~", "/") }

// resourceURL returns the page of a kind.
func resourceURL(k object.Kind) string { return "/resources/" + url.PathEscape(k.Resource()) }

// objectURL returns the page of an object, or a page below it.
func objectURL(ref object.Ref, below ...string) string {
	parts := []string{resourceURL(ref.Kind)}
	for _, part := range append([]string{cmp.Or(ref.Namespace, noNamespace), ref.Name}, below...) {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// liveURL returns the event stream of a page.
func liveURL(p *page) string {
	if p.Watch == "" {
		return "/live"
	}
	return "/live?" + url.Values{"watch": {p.Watch}, "namespace": {p.Namespace}, "name": {p.Object}}.Encode()
}

// urlWith returns a URL with other query parameters, given as names and values; "" removes one.
func urlWith(at *url.URL, parameters ...string) string {
	query := at.Query()
	for pair := range slices.Chunk(parameters, 2) {
		query.Set(pair[0], pair[1])
		if pair[1] == "" {
			query.Del(pair[0])
		}
	}
	changed := *at
	changed.RawQuery = query.Encode()
	return changed.RequestURI()
}

// accessErrors collects errors of access reviews. A page with such an error is not shown, since
// it may lack what the user may see.
type accessErrors struct{ err atomic.Pointer[error] }

// record records an error. A user who may not create access reviews has no permissions.
func (d *accessErrors) record(err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		d.err.CompareAndSwap(nil, &err)
	}
}

// first returns the first error.
func (d *accessErrors) first() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// NewForConfig is New with a client of a cluster that logs what users change.
func NewForConfig(config *rest.Config, o Options) (*Server, error) {
	client, err := userclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the users of the dashboard: %w", err)
	}
	client.OnWrite = writeLog{cmp.Or(o.Log, slog.Default())}.log
	o.Cluster = client
	return New(o)
}

// writeLog logs the writes of users.
type writeLog struct{ logger *slog.Logger }

// log logs what a user changed, or why it was refused.
func (l writeLog) log(user, verb string, ref object.Ref, err error, took time.Duration) {
	resource := schema.GroupResource{Group: ref.Group, Resource: ref.Plural}
	l.logger.Info("dashboard write", "user", user, "verb", verb, "resource", resource.String(),
		"namespace", ref.Namespace, "name", ref.Name, "took", took.String(), "refusal", redactedError(resource, err))
}

// maxLoggedError limits the bytes of a logged error, which may quote the whole request.
const maxLoggedError = 500

// quotedText matches the values that an error quotes.
var quotedText = regexp.MustCompile(`(?s)"(\\.|[^"\\])*"?|` + "`[^`]*`?")

// redactedError returns an error for the log. It removes quoted values of Secrets.
func redactedError(resource schema.GroupResource, err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if resource == (schema.GroupResource{Resource: "secrets"}) {
		text = quotedText.ReplaceAllString(text, `"…"`)
	}
	if len(text) > maxLoggedError {
		text = strings.ToValidUTF8(text[:maxLoggedError], "") + "…"
	}
	return text
}
