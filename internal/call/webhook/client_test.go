package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// credentialStore has credentials that a test can replace.
type credentialStore struct {
	now atomic.Pointer[webhook.Credentials]
	err error
}

func (w *credentialStore) current(context.Context) (*webhook.Credentials, error) {
	return w.now.Load(), w.err
}

// newTLSServer starts a TLS server that records the Authorization and the connection of
// each request.
func newTLSServer(t *testing.T) (server *httptest.Server, called *[]string) {
	t.Helper()
	called = new([]string)
	connections := map[string]int{}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := connections[r.RemoteAddr]; !known {
			connections[r.RemoteAddr] = len(connections)
		}
		*called = append(*called, fmt.Sprint(r.Header.Get("Authorization"), " over ", connections[r.RemoteAddr]))
		_, _ = io.WriteString(w, `{"children":[]}`)
	}))
	t.Cleanup(server.Close)
	return server, called
}

func trustConfig(server *httptest.Server) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func mustCall(t *testing.T, w testHook) {
	t.Helper()
	must.Get(w.Call(t.Context(), request())).In(t)
}

// A new token reuses connections, new certificates do not.
func TestCredentialsChange(t *testing.T) {
	server, called := newTLSServer(t)
	var held credentialStore
	w := open(t, webhook.Config{URL: server.URL, Credentials: held.current})
	first, second := trustConfig(server), trustConfig(server)
	for _, c := range []*webhook.Credentials{
		{TLS: first, Authorization: "Bearer a"},
		{TLS: first, Authorization: "Bearer b"},
		{TLS: first},
		{TLS: second, Authorization: "Bearer b"},
	} {
		held.now.Store(c)
		mustCall(t, w)
		mustCall(t, w)
	}
	want := "[Bearer a over 0 Bearer a over 0 Bearer b over 0 Bearer b over 0  over 0  over 0 Bearer b over 1 Bearer b over 1]"
	if got := fmt.Sprint(*called); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOldConnectionsAreClosed(t *testing.T) {
	closed := make(chan struct{}, 10)
	server, _ := newTLSServer(t)
	var held credentialStore
	held.now.Store(&webhook.Credentials{TLS: trustConfig(server)})
	w := open(t, webhook.Config{URL: server.URL, Credentials: held.current, Dial: dialNotifyingClose(closed)})
	mustCall(t, w)
	held.now.Store(&webhook.Credentials{TLS: trustConfig(server)})
	mustCall(t, w)
	<-closed
	if len(closed) > 0 {
		t.Error("the new connection was closed as well")
	}
}

func TestWrongCertificates(t *testing.T) {
	server, _ := newTLSServer(t)
	var held credentialStore
	held.now.Store(&webhook.Credentials{TLS: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}})
	w := open(t, webhook.Config{URL: server.URL, Credentials: held.current})
	if _, err := w.Call(t.Context(), request()); !strings.Contains(fmt.Sprint(err), "certificate signed by unknown authority") {
		t.Errorf("got %v", err)
	}
	held.now.Store(&webhook.Credentials{TLS: trustConfig(server)})
	mustCall(t, w)
}

func TestNoCallWithoutCredentials(t *testing.T) {
	held := credentialStore{err: errors.New("Secret ops/hook-token not found")}
	var trace call.Result
	w := open(t, webhook.Config{URL: "http://hook.nowhere/sync", Credentials: held.current},
		call.Config{Observe: func(e call.Result) { trace = e }})
	expectError(t, w, "http://hook.nowhere/sync", "credentials: Secret ops/hook-token not found")
	if trace.Code != 0 || !errors.Is(trace.Err, held.err) {
		t.Errorf("observed %+v", trace)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Call(ctx, request()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c := &webhook.Credentials{Authorization: "Bearer s3cret"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, "s3cret") {
			t.Errorf("%s shows %s", format, text)
		}
	}
}

// dialNotifyingClose dials connections that report their closing.
func dialNotifyingClose(closed chan<- struct{}) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &notifyingConn{conn, sync.OnceFunc(func() { closed <- struct{}{} })}, err
	}
}

type notifyingConn struct {
	net.Conn

	onClose func()
}

func (m *notifyingConn) Close() error {
	m.onClose()
	return m.Conn.Close()
}
