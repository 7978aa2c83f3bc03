package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster is a control plane of the test, and the processes that run controllers in it.
type cluster struct {
	t               *testing.T
	dir, kubeconfig string
	plane           *exec.Cmd
	runs            []*exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, dir: t.TempDir()}
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	c.plane = c.start("cluster", "dev", "--cluster-only", "--data-dir", filepath.Join(c.dir, "data"), "--kubeconfig", c.kubeconfig)
	c.waitFor("the API server", "get", "--raw", "/readyz")
	return c
}

// start starts the binary with its log in a file, until the test ends.
func (c *cluster) start(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	path := filepath.Join(c.dir, name+".log")
	log := must(os.Create(path))(c.t)
	cmd := exec.Command(binary(c.t), args...)
	cmd.Stdout, cmd.Stderr = log, log
	succeed(c.t, cmd.Start())
	c.t.Cleanup(func() {
		end(cmd)
		log.Close()
		if c.t.Failed() {
			text, _ := os.ReadFile(path)
			c.t.Logf("%s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return cmd
}

// end ends a process, gracefully if it can.
func end(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // It may have ended by itself.
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
}

// run runs controllers and returns the address of the metrics.
func (c *cluster) run(name string, args ...string) string {
	c.t.Helper()
	address := freeAddress(c.t)
	c.runs = append(c.runs, c.start(name, append([]string{"run", "--namespace", "default", "--address", address, "--log-format", "json"}, args...)...))
	return address
}

func (c *cluster) stop() { end(c.plane) }

func (c *cluster) stopRuns() {
	for _, run := range c.runs {
		end(run)
	}
}

// freeAddress returns an unused address. Its port is below those that programs get which listen on any, so none gets it
// before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(8000)))
		if err == nil {
			listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (c *cluster) try(stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), binary(c.t), append([]string{"kubectl", "--kubeconfig", c.kubeconfig}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, &problems)
	}
	return out.String(), nil
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return must(c.try("", args...))(c.t)
}

// waitFor runs kubectl until it succeeds.
func (c *cluster) waitFor(what string, args ...string) {
	c.t.Helper()
	c.retry(what, "", args...)
}

// apply applies manifests, as soon as their kinds are served.
func (c *cluster) apply(text string) {
	c.t.Helper()
	c.retry("the manifests", text, "apply", "-f", "-")
}

func (c *cluster) retry(what, stdin string, args ...string) {
	c.t.Helper()
	deadline := time.Now().Add(wait)
	for {
		_, err := c.try(stdin, args...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("wait for %s: %v", what, err)
		}
		<-time.After(200 * time.Millisecond) // between two attempts
	}
}

// count returns the number of objects.
func (c *cluster) count(args ...string) int {
	out, err := c.try("", append([]string{"get", "-o", "name"}, args...)...)
	if err != nil {
		return 0
	}
	return strings.Count(out, "\n")
}

// restricted writes a kubeconfig with the token of a ServiceAccount.
func (c *cluster) restricted(account string) string {
	c.t.Helper()
	var config map[string]any
	succeed(c.t, json.Unmarshal([]byte(c.kubectl("config", "view", "--raw", "-o", "json")), &config))
	token := strings.TrimSpace(c.kubectl("create", "token", account, "-n", "default"))
	for _, user := range config["users"].([]any) {
		user.(map[string]any)["user"] = map[string]any{"token": token}
	}
	data := must(json.Marshal(config))(c.t)
	path := filepath.Join(c.dir, account+".yaml")
	succeed(c.t, os.WriteFile(path, data, 0o600))
	return path
}

// must takes the results of a call, and ends the test with the error: must(os.ReadFile(path))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return value
	}
}

// succeed ends the test with an error, if there is one.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
