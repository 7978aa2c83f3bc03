package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/controlplane/internal/proctest"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// waitTimeout bounds every wait; what is waited for takes a second or two on an idle
// machine.
const waitTimeout = 3 * time.Minute

// cluster is a cluster under test and its kubectl.
type cluster struct {
	*controlplane.Cluster
	t *testing.T
}

func start(t *testing.T, opts controlplane.Options) cluster {
	t.Helper()
	opts.Executable = os.Getenv(binaryVariable)
	c := must.Get(controlplane.Start(t.Context(), opts)).In(t)
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return cluster{c, t}
}

// on is the same cluster in a subtest.
func (c cluster) on(t *testing.T) cluster { return cluster{c.Cluster, t} }

func (c cluster) tryKubectl(args ...string) (string, error) {
	return c.tryKubectlWithInput("", args...)
}

func (c cluster) tryKubectlWithInput(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, os.Getenv(binaryVariable), append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (c cluster) kubectl(args ...string) string {
	c.t.Helper()
	return must.Get(c.tryKubectl(args...)).In(c.t)
}

func (c cluster) apply(manifest string) {
	c.t.Helper()
	must.Get(c.tryKubectlWithInput(manifest, "apply", "-f", "-")).In(c.t)
}

// await blocks until kubectl sees the condition.
func (c cluster) await(condition string, what ...string) {
	c.t.Helper()
	c.kubectl(append([]string{"wait", "--for=" + condition, "--timeout=" + waitTimeout.String()}, what...)...)
}

func (c cluster) pids() []int {
	var pids []int
	for _, component := range c.Components() {
		pids = append(pids, component.PID)
	}
	return pids
}

// stop stops the cluster and checks what a stop promises.
func (c cluster) stop() {
	c.t.Helper()
	pids, since := c.pids(), time.Now()
	must.Succeed(c.t, c.Stop(c.t.Context()))
	if took := time.Since(since); took > 10*time.Second {
		c.t.Errorf("stopping took %v", took)
	}
	select {
	case <-c.Done():
	default:
		c.t.Error("stopped, but not done")
	}
	if c.Err() != nil {
		c.t.Errorf("stopped, but failed: %v", c.Err())
	}
	expectGone(c.t, 3*time.Second, pids)
}

// kill kills a component without a warning; it is started again. Which process it is may
// have changed since it was looked at last: one may end because another has.
func (c cluster) kill(name string) (victim controlplane.Component) {
	c.t.Helper()
	proctest.Eventually(c.t, waitTimeout, func() error {
		all := c.Components()
		victim = all[slices.IndexFunc(all, func(each controlplane.Component) bool { return each.Name == name })]
		if victim.PID == 0 {
			return fmt.Errorf("%s does not run", name)
		}
		return syscall.Kill(victim.PID, syscall.SIGKILL)
	})
	return victim
}

func expectGone(t *testing.T, limit time.Duration, pids []int) {
	t.Helper()
	proctest.Eventually(t, limit, func() error {
		for _, pid := range pids {
			if proctest.Alive(pid) {
				return fmt.Errorf("pid %d still runs", pid)
			}
		}
		return nil
	})
}

func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	for _, entry := range must.Get(os.ReadDir(dir)).In(t) {
		t.Errorf("left behind: %s", entry.Name())
	}
}
