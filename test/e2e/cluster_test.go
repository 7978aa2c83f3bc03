package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// testCluster is a control plane of a test's own, without controllers.
type testCluster struct {
	t          *testing.T
	dir        string
	kubeconfig string
	runs       int
	inProcess  kubectl
}

func bootCluster(t *testing.T) *testCluster {
	dir := t.TempDir()
	c := &testCluster{t: t, dir: filepath.Join(dir, "data"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	start(t, filepath.Join(dir, "cluster.log"), os.Getenv("SETPOINT"),
		"dev", "--cluster-only", "--data-dir", c.dir, "--kubeconfig", c.kubeconfig)
	c.until(3*time.Minute, func() error {
		_, err := c.try("", "get", "--raw", "/readyz")
		return err
	})
	return c
}

// run starts Setpoint; SETPOINT_RUN may name another binary for it, such as one
// with the race detector.
func (c *testCluster) run(flags ...string) *process {
	binary := cmp.Or(os.Getenv("SETPOINT_RUN"), os.Getenv("SETPOINT"))
	c.runs++
	log := filepath.Join(filepath.Dir(c.dir), fmt.Sprintf("setpoint-%d.log", c.runs))
	return start(c.t, log, binary, append([]string{"run", "--kubeconfig", c.kubeconfig, "--address", ""}, flags...)...)
}

// killComponent kills a process of the control plane, without a warning.
func (c *testCluster) killComponent(name string) {
	list, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		c.t.Errorf("list processes: %v", err)
		return
	}
	for line := range strings.Lines(string(list)) {
		pid, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		isComponent := strings.Contains(args, "_component "+name+" ") || strings.Contains(args, "/"+name+" ") // of another version
		if !isComponent || !strings.Contains(args, c.dir) {
			continue
		}
		number, _ := strconv.Atoi(pid)
		victim, _ := os.FindProcess(number)
		if err := victim.Kill(); err != nil {
			c.t.Errorf("kill %s: %v", name, err)
		}
		return
	}
	c.t.Errorf("no process of %s found", name)
}

func (c *testCluster) apply(text string) {
	c.t.Helper()
	must.Get(c.try(text, "apply", "-f", "-")).In(c.t)
}

func (c *testCluster) kubectl(args ...string) {
	c.t.Helper()
	must.Get(c.try("", args...)).In(c.t)
}

// try runs kubectl, or prints the same without it where it gets something.
func (c *testCluster) try(stdin string, args ...string) (string, error) {
	full := append([]string{"--kubeconfig", c.kubeconfig}, args...)
	got, err := c.inProcess.run("", nil, full...)
	switch {
	case err == nil:
		return got.stdout.String(), nil
	case !errors.Is(err, errOnlyKubectl):
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, &got.stderr)
	}
	cmd := exec.Command("kubectl", full...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, &complaints)
	}
	return out.String(), nil
}

// until repeats a check until it finds nothing wrong.
func (c *testCluster) until(limit time.Duration, check func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			c.t.Fatalf("not within %v: %v", limit, err)
		}
	}
}

// established waits until a kind is served. kubectl alone would fail for a CRD that has
// no conditions at all yet.
func (c *testCluster) established(crd string) {
	c.t.Helper()
	c.until(waitTimeout, func() error {
		_, err := c.try("", "wait", "--for=condition=Established", "crd/"+crd, "--timeout=10s")
		return err
	})
}

// process is a program that runs beside a test. It ends with the test.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// start starts a program. Its output is shown when the test fails.
func start(t *testing.T, log, program string, args ...string) *process {
	t.Helper()
	output := must.Get(os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)).In(t)
	defer output.Close() // the program has its own copy
	p := &process{cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	must.Succeed(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	t.Cleanup(func() {
		p.stop()
		if said, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s %s:\n%s", program, args[0], said)
		}
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop is what a shutdown of a machine is: SIGTERM.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}

func (p *process) expectAlive(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		t.Errorf("%s has ended", p.cmd.Path)
	default:
	}
}
