package userclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// An API server that has just started does not describe custom resources, and one that is down
// describes nothing: cached schemas are used.
func TestSchemasDuringOutage(t *testing.T) {
	const described = `{"paths":{"apis/example.org/v1":{"serverRelativeURL":"/openapi/v3/apis/example.org/v1?hash=a"}}}`
	var index atomic.Value
	index.Store(described)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := index.Load().(string)
		if strings.Contains(r.URL.Path, "example.org") {
			response = `{"openapi":"3.0.0","components":{"schemas":{"s":{"x-kubernetes-group-version-kind":[{"group":"example.org","version":"v1","kind":"Shop"}]}}}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(response))
	}))
	defer server.Close()
	api := must.Get(NewCluster(&rest.Config{Host: server.URL})).In(t)
	client := must.Get(api.Client(User{OwnCredentials: true})).In(t)
	read := func() error {
		_, _, err := client.Schema(t.Context(), object.Kind{Group: "example.org", Version: "v1", Kind: "Shop", Plural: "shops"})
		return err
	}
	index.Store(`{"paths":{}}`)
	if err := read(); !errors.Is(err, failure.ErrNotFound) {
		t.Errorf("never described: %v", err)
	}
	index.Store(described)
	must.Succeed(t, read()) // Described a moment later.
	for _, now := range []string{described, `{"paths":{}}`, described} {
		index.Store(now)
		if err := read(); err != nil {
			t.Errorf("the index is %s: %v", now, err)
		}
	}
	server.Close()
	must.Succeed(t, read()) // No listener.
}

// An API server without OpenAPI has no schemas, which is known after one request.
func TestNoSchemasWithoutOpenAPI(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	api := must.Get(NewCluster(&rest.Config{Host: server.URL})).In(t)
	client := must.Get(api.Client(User{OwnCredentials: true})).In(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, _, err := client.Schema(ctx, object.Kind{Group: "example.org", Version: "v1", Kind: "Shop", Plural: "shops"})
	if !errors.Is(err, failure.ErrNotFound) || requests.Load() > 2 {
		t.Errorf("%v, after %d requests", err, requests.Load())
	}
}
