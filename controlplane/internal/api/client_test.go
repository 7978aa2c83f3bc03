package api_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane/internal/api"
	"github.com/setpoint-dev/setpoint/controlplane/internal/pki"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// serve responds with the status code in the path, and echoes the request.
func serve(t *testing.T) (*api.Client, string) {
	t.Helper()
	authority := must.Get(pki.NewAuthority("test")).In(t)
	serving := must.Get(authority.Server("test", "127.0.0.1")).In(t)
	cert := must.Get(tls.X509KeyPair(serving.Cert, serving.Key)).In(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.WriteHeader(code)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"method":%q,"body":%q}`, r.Method, body)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)

	own := must.Get(authority.Client("me")).In(t)
	client := must.Get(api.New(authority.Cert, own)).In(t)
	t.Cleanup(client.Close)
	return client, server.URL
}

func TestGetAndCreate(t *testing.T) {
	client, url := serve(t)
	var echo struct{ Method, Body string }
	if err := client.Get(t.Context(), url+"/200", &echo); err != nil || echo.Method != http.MethodGet {
		t.Errorf("%+v, %v", echo, err)
	}
	for _, code := range []string{"/201", "/409"} { // made, or there already
		if err := client.Create(t.Context(), url+code, map[string]string{"a": "b"}); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	client, url := serve(t)
	err := client.Create(t.Context(), url+"/403", "x")
	var status *api.StatusError
	if !errors.As(err, &status) || status.Code != 403 || !strings.Contains(err.Error(), "POST "+url) {
		t.Errorf("error is %v", err)
	}
}
