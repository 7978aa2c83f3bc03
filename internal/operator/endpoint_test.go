package operator

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"k8s.io/client-go/rest"
)

func TestOperatorURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:8000":    "http://127.0.0.1:8000",
		"https://rates:8443/base/": "https://rates:8443/base",
		"unix:///run/op/socket":    "unix:///run/op/socket",
	} {
		if e, err := parseEndpoint(text); err != nil || e.String() != want {
			t.Errorf("%s: %v, %v", text, e, err)
		}
	}
	for _, text := range []string{"", "127.0.0.1:8000", "rates", "ftp://a", "unix://run/socket", "http://a?b=c", "http:///path", "http://a b"} {
		if err := (Remote{URL: text}).Check(); err == nil || !strings.HasPrefix(err.Error(), "--operator: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTokenIsForTheOperatorOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	must.Succeed(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	e := must.Get(Remote{URL: "http://127.0.0.1:8000", TokenFile: file}.open()).In(t)
	for target, want := range map[string]string{
		"http://127.0.0.1:8000/handlers/a": "Bearer s3cret",
		"http://127.0.0.1:80001/a":         "",
		"http://other.example/":            "",
	} {
		if got := e.authorize(target); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

func TestTokenFilesWithoutOneToken(t *testing.T) {
	for _, text := range []string{"", "\n", "one two", "one\ntwo"} {
		file := filepath.Join(t.TempDir(), "token")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		if err := (Remote{URL: "http://127.0.0.1:8000", TokenFile: file}).Check(); err == nil || !strings.HasPrefix(err.Error(), "--operator-token-file: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// operatorServer serves a declaration whose instance a test can change.
func operatorServer(t *testing.T, instance *atomic.Value) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/declaration":
			fmt.Fprintf(w, `{"name": "op", "instance": %q, "health": "/healthz", "controllers": [%s]}`, instance.Load(),
				handlerOf+`"spec": {"resource": {"apiVersion": "v1", "resource": "pods"}, "handlers": [{"name": "h", "reasons": ["Create"], "webhook": {"url": "/h"}}]}}`)
		case "/healthz":
			http.Error(w, "the loop is blocked", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRestartedOperatorIsAnError(t *testing.T) {
	var instance atomic.Value
	instance.Store("one")
	server := operatorServer(t, &instance)
	op := must.Get(Open(t.Context(), Options{Remote: Remote{URL: server.URL}, Config: &rest.Config{Host: server.URL}, Log: slog.New(slog.DiscardHandler)})).In(t)
	must.Succeed(t, op.checkInstance(t.Context()))
	op.checkHealth(t.Context())
	if _, err := op.lastHealth(); err == nil || !strings.Contains(err.Error(), "the operator does not respond: GET "+server.URL+"/healthz returned 503") {
		t.Error(err)
	}
	instance.Store("two")
	err := op.Run(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err == nil || !strings.HasSuffix(err.Error(), "has restarted or declares other controllers: start Setpoint again") {
		t.Error(err)
	}
}

func TestDiscoveryNotifies(t *testing.T) {
	var kind atomic.Value
	kind.Store("Guitar")
	var full atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		etag := fmt.Sprintf("%q", kind.Load())
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		full.Add(1)
		fmt.Fprintf(w, `{"items": [{"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": [`+
			`{"resource": "guitars", "responseKind": {"kind": %q}, "verbs": ["list", "watch"]}]}]}]}`, kind.Load())
	}))
	t.Cleanup(server.Close)
	d := must.Get(newDiscovery(&rest.Config{Host: server.URL}, nil, slog.New(slog.DiscardHandler))).In(t)
	changed := d.notify()
	for range 3 {
		if all, err := d.kinds(t.Context()); err != nil || len(all) != 2 || all[0].Kind.Kind != "Guitar" {
			t.Fatal(all, err)
		}
	}
	if full.Load() != 2 {
		t.Errorf("%d full responses", full.Load())
	}
	select {
	case <-changed: // All are notified of what one of them has read.
	default:
		t.Error("not notified of the first kinds")
	}
	kind.Store("Lute")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go d.Run(ctx)
	<-changed
	if all, err := d.kinds(t.Context()); err != nil || all[0].Kind.Kind != "Lute" {
		t.Error(all, err)
	}
}
