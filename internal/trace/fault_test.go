package trace

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
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// asked is what asking a hook at an address fails with.
func asked(t *testing.T, c webhook.Config) error {
	t.Helper()
	w, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	_, err = w.Call(t.Context(), &hook.Request{Parent: []byte(`{"metadata":{"name":"a"}}`)})
	if err == nil {
		t.Fatal("the hook has answered")
	}
	return failure.New("HookFailed", fmt.Errorf("sync hook: %w", failure.By(failure.Hook, err)))
}

// hung is a hook that never answers, and ends with the test.
func hung(t *testing.T) *httptest.Server {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(func() { close(ended); server.Close() })
	return server
}

func answering(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/there")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// Errors as they come off the wire, so that what types they have is not assumed.
func TestFaultsOfHooks(t *testing.T) {
	failing := httptest.NewServer(answering(http.StatusInternalServerError, "lookup x: tls: connect: boom"))
	moved := httptest.NewServer(answering(http.StatusFound, ""))
	odd := httptest.NewServer(answering(http.StatusOK, `{"children":[{}]}`))
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	secure := httptest.NewTLSServer(answering(http.StatusOK, "{}"))
	secure.Config.ErrorLog = nil
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, s := range []*httptest.Server{failing, moved, odd, broken, secure} {
		t.Cleanup(s.Close)
	}
	strict := func(context.Context) (*webhook.Credentials, error) {
		return &webhook.Credentials{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, nil
	}
	lacking := func(context.Context) (*webhook.Credentials, error) { return nil, &net.DNSError{Name: "vault"} }
	nowhere := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "hook.shop", IsNotFound: true}}
	}
	for name, c := range map[string]struct {
		config webhook.Config
		want   Fault
	}{
		"fails":       {webhook.Config{URL: failing.URL}, Fault{What: HookStatus, Code: 500, Said: "lookup x: tls: connect: boom"}},
		"moved":       {webhook.Config{URL: moved.URL}, Fault{What: HookStatus, Code: 302}},
		"odd":         {webhook.Config{URL: odd.URL}, Fault{What: HookReply, Path: "children[0].apiVersion"}},
		"hangs":       {webhook.Config{URL: hung(t).URL, Timeout: 10 * time.Millisecond}, Fault{What: HookLate}},
		"breaks off":  {webhook.Config{URL: broken.URL}, Fault{What: HookBroken}},
		"nobody":      {webhook.Config{URL: gone.URL}, Fault{What: HookAbsent}},
		"unknown":     {webhook.Config{URL: "http://hook.shop", Dial: nowhere}, Fault{What: HookUnknown}},
		"untrusted":   {webhook.Config{URL: secure.URL, Credentials: strict}, Fault{What: HookUntrusted}},
		"not secure":  {webhook.Config{URL: "https" + failing.URL[len("http"):]}, Fault{What: HookUntrusted}},
		"no password": {webhook.Config{URL: failing.URL, Credentials: lacking}, Fault{What: HookCredentials}},
	} {
		err := asked(t, c.config)
		if got := FaultOf(errors.Join(errors.New("status"), err)); got == nil || *got != c.want {
			t.Errorf("%s: %v is %+v, want %+v", name, err, got, c.want)
		}
	}
}

func TestFaultsOfOthers(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	terminating := apierrors.NewForbidden(pods, "a", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	refused := &net.OpError{Op: "dial", Err: errors.New("connect: connection refused")}
	forbidden := apierrors.NewForbidden(pods, "a", errors.New(`it asks for a "lookup " at connect: tls: certificate`))
	for name, c := range map[string]struct {
		err  error
		want *Fault
	}{
		"none":               {nil, nil},
		"unknown":            {errors.New("lookup x: connection refused: is forbidden"), nil},
		"forbidden":          {fmt.Errorf("create Pod a/b: %w", forbidden), &Fault{What: Forbidden}},
		"invalid":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "host"), "lookup ", "answered 404")}), &Fault{What: Invalid, Path: "spec.host"}},
		"conflict":           {apierrors.NewConflict(pods, "a", errors.New("certificate")), &Fault{What: Conflicting}},
		"terminating":        {terminating, &Fault{What: Terminating}},
		"denied":             {apierrors.NewBadRequest(`admission webhook "w" denied the request: no such host`), &Fault{What: Refused}},
		"its webhook failed": {apierrors.NewInternalError(errors.New("failed calling webhook: connection refused")), &Fault{What: Refused}},
		"API server is away": {refused, &Fault{What: Unanswered}},
		"API server is busy": {apierrors.NewServiceUnavailable("busy"), &Fault{What: Unanswered}},
		"function":           {failure.By(failure.Hook, errors.New("answered 404")), &Fault{What: HookFailed}},
		"handler's own way":  {fmt.Errorf("handler a: %w", failure.By(failure.Handler, refused)), &Fault{What: HandlerFailed}},
		"handler's writes":   {failure.By(failure.Handler, apierrors.NewConflict(pods, "a", nil)), &Fault{What: HandlerFailed}},
		"handler's rights":   {failure.By(failure.Handler, forbidden), &Fault{What: Forbidden}},
		"handler hangs":      {failure.By(failure.Handler, context.DeadlineExceeded), &Fault{What: TimedOut}},
		"panic":              {failure.By(failure.Handler, failure.Panicked("it panicked", refused)), &Fault{What: Panicked}},
		"reply":              {&hook.MalformedError{Path: "children[1]", Err: errors.New("no")}, &Fault{What: HookReply, Path: "children[1]"}},
	} {
		got := FaultOf(c.err)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v is %+v, want %+v", name, c.err, got, c.want)
		}
	}
}
