package sdk

import (
	"bytes"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeAPIServer is an API server that has some objects, by path, and notes what is deleted.
type fakeAPIServer struct {
	objects map[string]string

	mu      sync.Mutex
	deleted []string
}

func (s *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	at := r.URL.Path
	if selector := r.URL.Query().Get("labelSelector"); selector != "" {
		at += "?" + selector
	}
	if r.Method == http.MethodDelete {
		s.deleted = append(s.deleted, at)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		return
	}
	object, there := s.objects[at]
	if !there {
		w.WriteHeader(http.StatusNotFound)
		object = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	fmt.Fprint(w, object)
}

// kubeconfigFor is a kubeconfig of an API server.
func kubeconfigFor(t *testing.T, server http.Handler) string {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + s.URL + "'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestUninstall(t *testing.T) {
	withoutCluster(t)
	const (
		registration = "/apis/admissionregistration.k8s.io/v1/"
		secret       = "/api/v1/namespaces/home/secrets/guard-admission"
		none         = `{"items":[]}`
	)
	ours := func(group string) map[string]string {
		return map[string]string{
			registration + "mutatingwebhookconfigurations?setpoint.dev/admission=" + group:   `{"items":[{"metadata":{"name":"guard.pod","uid":"1","resourceVersion":"1"}}]}`,
			registration + "validatingwebhookconfigurations?setpoint.dev/admission=" + group: none,
			secret: `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"home","name":"guard-admission","uid":"2","resourceVersion":"1","labels":{"app.kubernetes.io/managed-by":"setpoint"}}}`,
		}
	}
	foreign := ours("home.guard")
	foreign[secret] = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"home","name":"guard-admission","uid":"2"}}`
	gone := ours("home.guard")
	delete(gone, secret)
	for name, c := range map[string]struct {
		objects map[string]string
		args    string
		deleted []string
		err     string
	}{
		"all":                {ours("home.guard"), "", []string{registration + "mutatingwebhookconfigurations/guard.pod", secret}, ""},
		"by another lease":   {ours("else.x"), "--leader-elect-resource-name=x --leader-elect-resource-namespace=else", []string{registration + "mutatingwebhookconfigurations/guard.pod", secret}, ""},
		"without a Secret":   {gone, "", []string{registration + "mutatingwebhookconfigurations/guard.pod"}, ""},
		"another's Secret":   {foreign, "", []string{registration + "mutatingwebhookconfigurations/guard.pod"}, "it does not belong to Setpoint"},
		"by another Service": {ours("home.guard"), "--admission-service=web", []string{registration + "mutatingwebhookconfigurations/guard.pod"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := &fakeAPIServer{objects: c.objects}
			args := append(strings.Fields("uninstall --namespace=home "+c.args), "--kubeconfig="+kubeconfigFor(t, server))
			var stdout, stderr bytes.Buffer
			code := runCommandLine(t, NewApp("guard"), args, &stdout, &stderr)
			if (code != 0) != (c.err != "") || !strings.Contains(stderr.String(), c.err) {
				t.Errorf("ends with %d: %s", code, &stderr)
			}
			if !slices.Equal(server.deleted, c.deleted) {
				t.Errorf("deleted %q, want %q", server.deleted, c.deleted)
			}
		})
	}
}
