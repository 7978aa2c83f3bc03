package explore

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// call is a request, in the words of one of the servers.
type call struct {
	method, path, contentType, accept string
	query                             url.Values
	body                              string
}

// outcome is a response.
type outcome struct {
	code int
	body map[string]any
}

// server is one of the two API servers.
type server interface {
	send(t *testing.T, c call) outcome
}

// clusterServer is the real API server.
type clusterServer struct {
	host   string
	client *http.Client
}

func newCluster(t *testing.T) *clusterServer {
	t.Helper()
	config := must.Get(clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))).In(t)
	client := must.Get(rest.HTTPClientFor(config)).In(t)
	return &clusterServer{host: config.Host, client: client}
}

func (c call) request(t *testing.T, host string) *http.Request {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), c.method, host+c.path+"?"+c.query.Encode(), strings.NewReader(c.body))).In(t)
	if c.contentType != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	r.Header.Set("Accept", "application/json"+c.accept)
	r.Header.Set("User-Agent", "explore/1")
	return r
}

func (s *clusterServer) send(t *testing.T, c call) outcome {
	t.Helper()
	response, err := s.client.Do(c.request(t, s.host))
	must.Succeed(t, err)
	return newOutcome(t, response)
}

func newOutcome(t *testing.T, response *http.Response) outcome {
	t.Helper()
	defer response.Body.Close()
	data := must.Get(io.ReadAll(response.Body)).In(t)
	got := outcome{code: response.StatusCode}
	if bytes.HasPrefix(data, []byte("{")) {
		must.Succeed(t, json.Unmarshal(data, &got.body))
	}
	return got
}

// memoryServer is the API server in memory.
type memoryServer struct {
	*apiserver.Server
	state *apiserver.State
}

func (s *memoryServer) send(t *testing.T, c call) outcome {
	t.Helper()
	after, response := s.Do(s.state, c.request(t, "http://memory"))
	s.state = after
	return newOutcome(t, response)
}

func newMemory(t *testing.T, kinds []object.Resource, namespace string) *memoryServer {
	t.Helper()
	s := apiservertest.New(t, kinds, apiservertest.WidgetCRD, namespace)
	return &memoryServer{s, s.Empty()}
}

// install creates the kind Widget in the cluster and waits until it is served.
func (s *clusterServer) install(t *testing.T) {
	t.Helper()
	s.define(t, apiservertest.WidgetCRD, "/apis/example.com/v1/widgets")
}

// define creates a CRD and waits until its kind is served at a path.
func (s *clusterServer) define(t *testing.T, crd, path string) {
	t.Helper()
	s.send(t, call{method: http.MethodPost, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		contentType: "application/json", body: string(apiservertest.JSON(t, crd))})
	s.await(t, path, func() bool {
		return s.send(t, call{method: http.MethodGet, path: path}).code == http.StatusOK
	})
}

// createNamespace creates a namespace for one test.
func (s *clusterServer) createNamespace(t *testing.T, name string) {
	t.Helper()
	created := s.send(t, call{method: http.MethodPost, path: "/api/v1/namespaces", contentType: "application/json",
		body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`})
	if created.code != http.StatusCreated {
		t.Fatalf("create namespace: %v", created)
	}
}

// await waits for a condition.
func (s *clusterServer) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
