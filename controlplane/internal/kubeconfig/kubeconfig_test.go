package kubeconfig_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane/internal/kubeconfig"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestFileOfARunningClusterIsKept(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	defer listener.Close()
	server := "https://" + listener.Addr().String()
	running := kubeconfig.Encode(kubeconfig.Entry{Server: server, User: "u"})
	path := filepath.Join(t.TempDir(), "config")
	must.Succeed(t, os.WriteFile(path, running, 0o600))
	if err := kubeconfig.CheckReplaceable(path); err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("the cluster runs: %v", err)
	}
	must.Succeed(t, kubeconfig.Remove(path, "https://127.0.0.1:1"))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file of another cluster: %v", err)
	}
	for range 2 {
		must.Succeed(t, kubeconfig.Remove(path, server))
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was not removed")
	}
}

func TestOnlyOurOwnFilesAreReplaced(t *testing.T) {
	ours := string(kubeconfig.Encode(kubeconfig.Entry{Server: "https://127.0.0.1:1", User: "u"}))
	path := filepath.Join(t.TempDir(), "config")
	if err := kubeconfig.CheckReplaceable(path); err != nil {
		t.Errorf("no file: %v", err)
	}
	for content, replaceable := range map[string]bool{ours: true, "": true, "apiVersion: v1\nkind: Config\n": false} {
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
		if err := kubeconfig.CheckReplaceable(path); (err == nil) != replaceable {
			t.Errorf("content %.20q: %v", content, err)
		}
	}
}
