package kubeconfig_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane/internal/kubeconfig"
)

func TestOnlyOurOwnFilesAreReplaced(t *testing.T) {
	ours := string(kubeconfig.Encode(kubeconfig.Entry{Server: "https://127.0.0.1:1", User: "u"}))
	path := filepath.Join(t.TempDir(), "config")
	if err := kubeconfig.CheckReplaceable(path); err != nil {
		t.Errorf("no file: %v", err)
	}
	for content, replaceable := range map[string]bool{ours: true, "": true, "apiVersion: v1\nkind: Config\n": false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := kubeconfig.CheckReplaceable(path); (err == nil) != replaceable {
			t.Errorf("content %.20q: %v", content, err)
		}
	}
}
