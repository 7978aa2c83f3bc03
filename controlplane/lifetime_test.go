package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestDataDirPersists(t *testing.T) {
	opts := controlplane.Options{
		DataDir:    filepath.Join(t.TempDir(), "data"),
		Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
	}
	first := start(t, opts)
	first.kubectl("create", "configmap", "kept", "--from-literal=a=b")
	expectInUse(t, opts)
	first.stop()
	before := read(t, opts.Kubeconfig)

	second := start(t, opts)
	if got := second.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}"); got != "b" {
		t.Errorf("the ConfigMap holds %q", got)
	}
	if second.Address() != first.Address() {
		t.Errorf("address was %s, is %s", first.Address(), second.Address())
	}
	// A kubeconfig copied from the first run is still good.
	must.Succeed(t, os.WriteFile(opts.Kubeconfig, []byte(before), 0o600))
	second.kubectl("run", "late", "--image=example.com/x")
	second.await("condition=Ready", "pod/late")
	second.stop()
}

func expectInUse(t *testing.T, opts controlplane.Options) {
	t.Helper()
	opts.Kubeconfig = ""
	_, err := controlplane.Start(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by pid %d (%s", os.Getpid(), os.Args[0])) {
		t.Errorf("second cluster in the same directory: %v", err)
	}
}

// Whatever way the parent dies, the components go with it, and its directory can
// be used again.
func TestKilledParentKillsComponents(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	parent.Stderr = os.Stderr
	out := must.Get(parent.StdoutPipe()).In(t)
	must.Succeed(t, parent.Start())
	var components []controlplane.Component
	must.Succeed(t, json.NewDecoder(out).Decode(&components))
	if len(components) != 5 {
		t.Errorf("components are %+v", components)
	}
	must.Succeed(t, parent.Process.Kill())
	_ = parent.Wait()
	var pids []int
	for _, component := range components {
		pids = append(pids, component.PID)
	}
	expectGone(t, waitTimeout, pids)
	start(t, controlplane.Options{DataDir: dir}).stop()
}

func TestComponentFailsToStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Executable: os.Getenv(binaryVariable),
		Args:       map[string][]string{"kube-apiserver": {"--no-such-flag"}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"kube-apiserver keeps ending", "logs/kube-apiserver.log", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestCancelledStartCleansUp(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := controlplane.Start(ctx, controlplane.Options{
		Executable: os.Getenv(binaryVariable),
		Progress: func(phase string) func(error) {
			if phase == "kube-apiserver" {
				cancel()
			}
			return func(error) {}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	expectEmpty(t, temp)
}

func TestForeignKubeconfigIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	const theirs = "apiVersion: v1\nkind: Config\n"
	must.Succeed(t, os.WriteFile(path, []byte(theirs), 0o600))
	_, err := controlplane.Start(t.Context(), controlplane.Options{Kubeconfig: path})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v", err)
	}
	if read(t, path) != theirs {
		t.Error("it was changed")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(path)).In(t))
}
