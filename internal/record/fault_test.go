package record

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// callError returns the error of calling a hook.
func callError(t *testing.T, c webhook.Config) error {
	t.Helper()
	w := call.New(call.Config{Transport: must.Get(webhook.New(c)).In(t)})
	t.Cleanup(w.Close)
	_, err := w.Call(t.Context(), &hook.Request{Parent: []byte(`{"metadata":{"name":"a"}}`)})
	if err == nil {
		t.Fatal("the hook has answered")
	}
	return failure.WithReason("HookFailed", fmt.Errorf("sync hook: %w", failure.WithSource(failure.Hook, err)))
}

// newHangingServer returns a hook that sends no response until the test ends.
func newHangingServer(t *testing.T) *httptest.Server {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(func() { close(ended); server.Close() })
	return server
}

func respondWith(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/there")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// The test uses real errors from the network, because their types are undocumented.
func TestHookFaults(t *testing.T) {
	failing := httptest.NewServer(respondWith(http.StatusInternalServerError, "lookup x: tls: connect: boom"))
	moved := httptest.NewServer(respondWith(http.StatusFound, ""))
	malformed := httptest.NewServer(respondWith(http.StatusOK, `{"children":[{}]}`))
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	secure := httptest.NewTLSServer(respondWith(http.StatusOK, "{}"))
	secure.Config.ErrorLog = nil
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, s := range []*httptest.Server{failing, moved, malformed, broken, secure} {
		t.Cleanup(s.Close)
	}
	strict := func(context.Context) (*webhook.Credentials, error) {
		return &webhook.Credentials{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, nil
	}
	missing := func(context.Context) (*webhook.Credentials, error) { return nil, &net.DNSError{Name: "vault"} }
	nowhere := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "hook.shop", IsNotFound: true}}
	}
	for name, c := range map[string]struct {
		config webhook.Config
		want   failure.Fault
	}{
		"fails":       {webhook.Config{URL: failing.URL}, failure.Fault{Kind: failure.HookStatus, Code: 500, Body: "lookup x: tls: connect: boom"}},
		"moved":       {webhook.Config{URL: moved.URL}, failure.Fault{Kind: failure.HookStatus, Code: 302}},
		"odd":         {webhook.Config{URL: malformed.URL}, failure.Fault{Kind: failure.HookInvalidResponse, Path: "children[0].apiVersion"}},
		"hangs":       {webhook.Config{URL: newHangingServer(t).URL, Timeout: 10 * time.Millisecond}, failure.Fault{Kind: failure.HookTimeout}},
		"breaks off":  {webhook.Config{URL: broken.URL}, failure.Fault{Kind: failure.HookDisconnected}},
		"no listener": {webhook.Config{URL: gone.URL}, failure.Fault{Kind: failure.HookUnreachable}},
		"unknown":     {webhook.Config{URL: "http://hook.shop", Dial: nowhere}, failure.Fault{Kind: failure.HookUnknownHost}},
		"untrusted":   {webhook.Config{URL: secure.URL, Credentials: strict}, failure.Fault{Kind: failure.HookTLS}},
		"not secure":  {webhook.Config{URL: "https" + failing.URL[len("http"):]}, failure.Fault{Kind: failure.HookTLS}},
		"no password": {webhook.Config{URL: failing.URL, Credentials: missing}, failure.Fault{Kind: failure.HookCredentials}},
	} {
		err := callError(t, c.config)
		if got := FaultOf(errors.Join(errors.New("status"), err)); got == nil || *got != c.want {
			t.Errorf("%s: %v is %+v, want %+v", name, err, got, c.want)
		}
	}
}

func TestOtherFaults(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	terminating := apierrors.NewForbidden(pods, "a", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	refused := &net.OpError{Op: "dial", Err: errors.New("connect: connection refused")}
	forbidden := apierrors.NewForbidden(pods, "a", errors.New(`it asks for a "lookup " at connect: tls: certificate`))
	refusedByWebhook := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		Message: `admission webhook "code.setpoint.dev" denied the request: spec.hooks.sync.inline.source:2:1: SyntaxError`,
	}}
	for name, c := range map[string]struct {
		err  error
		want *failure.Fault
	}{
		"none":               {nil, nil},
		"unknown":            {errors.New("lookup x: connection refused: is forbidden"), nil},
		"forbidden":          {fmt.Errorf("create Pod a/b: %w", forbidden), &failure.Fault{Kind: failure.Forbidden}},
		"identity":           {failure.WithReason("Forbidden", fmt.Errorf("reading is %w", identity.ErrForbidden)), &failure.Fault{Kind: failure.Forbidden}},
		"invalid":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "host"), "lookup ", "returned 404")}), &failure.Fault{Kind: failure.Invalid, Path: "spec.host"}},
		"code":               {refusedByWebhook, &failure.Fault{Kind: failure.Rejected}},
		"conflict":           {apierrors.NewConflict(pods, "a", errors.New("certificate")), &failure.Fault{Kind: failure.Conflict}},
		"terminating":        {terminating, &failure.Fault{Kind: failure.Terminating}},
		"denied":             {apierrors.NewBadRequest(`admission webhook "w" denied the request: no such host`), &failure.Fault{Kind: failure.Rejected}},
		"its webhook failed": {apierrors.NewInternalError(errors.New("failed calling webhook: connection refused")), &failure.Fault{Kind: failure.Rejected}},
		"API server is away": {refused, &failure.Fault{Kind: failure.APIServerUnavailable}},
		"API server is busy": {apierrors.NewServiceUnavailable("busy"), &failure.Fault{Kind: failure.APIServerUnavailable}},
		"function":           {failure.WithSource(failure.Hook, errors.New("returned 404")), &failure.Fault{Kind: failure.HookFailed}},
		"handler's own way":  {fmt.Errorf("handler a: %w", failure.WithSource(failure.Handler, refused)), &failure.Fault{Kind: failure.HandlerFailed}},
		"handler's writes":   {failure.WithSource(failure.Handler, apierrors.NewConflict(pods, "a", nil)), &failure.Fault{Kind: failure.HandlerFailed}},
		"handler's rights":   {failure.WithSource(failure.Handler, forbidden), &failure.Fault{Kind: failure.Forbidden}},
		"handler hangs":      {failure.WithSource(failure.Handler, context.DeadlineExceeded), &failure.Fault{Kind: failure.TimedOut}},
		"panic":              {failure.WithSource(failure.Handler, failure.FromPanic("it panicked", refused)), &failure.Fault{Kind: failure.Panicked}},
		"reply":              {&hook.MalformedError{Path: "children[1]", Err: errors.New("no")}, &failure.Fault{Kind: failure.HookInvalidResponse, Path: "children[1]"}},
	} {
		got := FaultOf(c.err)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v is %+v, want %+v", name, c.err, got, c.want)
		}
	}
}
