package soak

import (
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// controlPlane is a control plane without controllers of Setpoint. It brings back what
// is killed of it.
type controlPlane struct {
	data       string
	kubeconfig string
}

func bootControlPlane(t *testing.T, binary, dir string) *controlPlane {
	t.Helper()
	p := &controlPlane{data: filepath.Join(dir, "data"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	log := filepath.Join(dir, "plane.log")
	running := must.Get(start(log, binary, "dev", "--cluster-only", "--data-dir", p.data, "--kubeconfig", p.kubeconfig)).In(t)
	t.Cleanup(func() {
		running.stop()
		if t.Failed() {
			t.Logf("the control plane:\n%s", tail(log))
		}
	})
	return p
}

// kill kills a component without a warning.
func (p *controlPlane) kill(component string) error {
	list, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		pid, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(args, "_component "+component+" ") || !strings.Contains(args, p.data) {
			continue
		}
		number, err := strconv.Atoi(pid)
		if err != nil {
			return fmt.Errorf("process %q: %w", pid, err)
		}
		victim, err := os.FindProcess(number)
		if err != nil {
			return fmt.Errorf("find %s: %w", component, err)
		}
		return victim.Kill()
	}
	return fmt.Errorf("no %s is running", component)
}
