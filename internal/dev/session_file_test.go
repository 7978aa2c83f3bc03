package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Two sessions of one folder have a kubeconfig each, and the end of one leaves that of the other.
func TestSessionsHaveKubeconfigsOfTheirOwn(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	connect := func(namespace string) Cluster {
		t.Helper()
		target := &Target{
			Context: "dev", Server: "https://127.0.0.1:6443", Namespaces: []string{namespace}, Run: inventory.Run{Name: "project"},
			Kubeconfig: &clientcmdapi.Config{Contexts: map[string]*clientcmdapi.Context{"dev": {Cluster: "dev"}}},
		}
		return must.Get(target.connect(t.Context(), BootOptions{})).In(t)
	}
	stop := func(c Cluster) {
		t.Helper()
		must.Succeed(t, c.Stop(t.Context()))
	}
	first := connect("one")
	before := must.Get(os.ReadFile(first.Kubeconfig())).In(t)
	second := connect("two")
	if !locate.IsLocked(first.Kubeconfig()) || !locate.IsLocked(second.Kubeconfig()) {
		t.Errorf("%s and %s are not both locked", first.Kubeconfig(), second.Kubeconfig())
	}
	stop(second)
	if after, err := os.ReadFile(first.Kubeconfig()); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v:\n%s", err, after)
	}
	must.Succeed(t, os.Remove(first.Kubeconfig()))
	stop(first) // A user may have removed the file.
	left, err := os.ReadDir(filepath.Dir(first.Kubeconfig()))
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
