package realcluster_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/explore/realcluster"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"sets.example.com"},
	"spec":{"group":"example.com","names":{"plural":"sets"},"versions":[{"name":"v1","served":true}]}}`

// options are those of a replay on a server.
func options(t *testing.T, server *httptest.Server) realcluster.Options {
	t.Helper()
	o, err := object.Parse([]byte(crd))
	if err != nil {
		t.Fatal(err)
	}
	return realcluster.Options{Config: &rest.Config{Host: server.URL}, CRDs: []*object.Object{o}, Story: "one pod's name: " + strings.Repeat("long ", 20)}
}

// TestCRDsHaveTheLabel shows that what a killed process leaves is found by its label.
func TestCRDsHaveTheLabel(t *testing.T) {
	var created string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			body, _ := io.ReadAll(r.Body)
			created = string(body)
			w.WriteHeader(http.StatusCreated)
		case strings.HasPrefix(r.URL.Path, "/apis/apiextensions.k8s.io/"):
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	cluster, err := realcluster.Open(t.Context(), options(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"labels":{"test.setpoint.dev/story":"one-pod-s-name--long-`; !strings.Contains(created, want) {
		t.Errorf("%s\nis not in %s", want, created)
	}
	if err := cluster.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCRDsThatExist names the command that removes what another replay has left, and no other CRD.
func TestCRDsThatExist(t *testing.T) {
	for there, want := range map[string]string{
		strings.Replace(crd, `"name":"sets`, `"labels":{"test.setpoint.dev/story":"x"},"name":"sets`, 1): "then remove what it has left: kubectl delete crds,namespaces -l test.setpoint.dev/story",
		crd: "use a cluster without it",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusConflict)
			}
			_, _ = io.WriteString(w, there)
		}))
		if _, err := realcluster.Open(t.Context(), options(t, server)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), realcluster.Cleanup) != strings.Contains(want, "kubectl") {
			t.Errorf("%v, want %s", err, want)
		}
		server.Close()
	}
}

// TestTheAPIServerIsGone shows that the removal does not wait for it, and says what to do later.
func TestTheAPIServerIsGone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
	}))
	cluster, err := realcluster.Open(t.Context(), options(t, server))
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	err = cluster.Close(t.Context())
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "connection refused; what the replay has created stays: once the API server responds, run: "+realcluster.Cleanup) {
		t.Error(err)
	}
}
