package browser

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster is a control plane as its admin sees it.
type cluster struct {
	t          *testing.T
	binary     string
	kubeconfig string
	// data is the data directory of the test's own control plane.
	data string
	runs int
}

// sharedCluster returns the control plane of all tests.
func sharedCluster(t *testing.T) *cluster {
	return &cluster{t: t, binary: os.Getenv("SETPOINT"), kubeconfig: os.Getenv("KUBECONFIG")}
}

// bootCluster boots a control plane for one test. The arguments are those of `setpoint dev`.
func bootCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, binary: os.Getenv("SETPOINT"), data: filepath.Join(dir, "data"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	start(t, filepath.Join(dir, "dev.log"), c.binary, append([]string{"dev", "--data-dir", c.data, "--kubeconfig", c.kubeconfig}, args...)...)
	until(t, "boot a control plane", 3*time.Minute, func() error {
		_, err := c.try("", "get", "--raw", "/readyz")
		return err
	})
	return c
}

// run runs Setpoint as in a cluster and returns the URL of its dashboard.
func (c *cluster) run(flags ...string) (ui string) {
	c.t.Helper()
	address := valueOf(freeAddress())(c.t)
	c.runs++
	log := filepath.Join(filepath.Dir(c.data), fmt.Sprintf("run-%d.log", c.runs))
	start(c.t, log, c.binary, append([]string{"run", "--kubeconfig", c.kubeconfig, "--address", "", "--dashboard-address", address}, flags...)...)
	ui = "http://" + address
	awaitDashboard(c.t, ui)
	return ui
}

// printedDashboard waits for the address of the dashboard in the output of a session.
func printedDashboard(t *testing.T, log string) (address string) {
	t.Helper()
	until(t, "print the address of the dashboard", 3*time.Minute, func() error {
		text, err := os.ReadFile(log)
		if found := regexp.MustCompile(`dashboard:? +(http://\S+)`).FindSubmatch(text); found != nil {
			address = string(found[1])
			return nil
		}
		return cmp.Or(err, errors.New(string(text)))
	})
	return address
}

// awaitDashboard waits until a dashboard responds.
func awaitDashboard(t *testing.T, ui string) {
	t.Helper()
	until(t, "be answered by "+ui, 3*time.Minute, func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ui+"/signin", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		return err
	})
}

// kubectl runs kubectl as admin and returns its output.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return valueOf(c.try("", args...))(c.t)
}

func (c *cluster) apply(text string) {
	c.t.Helper()
	valueOf(c.try(text, "apply", "-f", "-"))(c.t)
}

// established waits until a kind is served, and has a place in discovery and a schema, which
// takes the API server a moment longer.
func (c *cluster) established(crd string) {
	c.t.Helper()
	until(c.t, "serve "+crd, waitTimeout, func() error {
		_, err := c.try("", "wait", "--for=condition=Established", "crd/"+crd, "--timeout=10s")
		return err
	})
	until(c.t, "discover "+crd, waitTimeout, func() error {
		_, err := c.try("", "get", crd, "--all-namespaces")
		return err
	})
	path := c.kubectl("get", "crd", crd, "-o", "jsonpath=/openapi/v3/apis/{.spec.group}/{.spec.versions[0].name}")
	until(c.t, "describe "+crd, waitTimeout, func() error {
		text, err := c.try("", "get", "--raw", path)
		if kind := `"` + c.kubectl("get", "crd", crd, "-o", "jsonpath={.spec.names.kind}") + `"`; err == nil && !strings.Contains(text, kind) {
			return errors.New("it is not described yet")
		}
		return err
	})
}

// get reads an object, or a part of it by JSONPath.
func (c *cluster) get(into any, args ...string) error {
	out, err := c.try("", append(append([]string{"get"}, args...), "-o", "json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

func (c *cluster) try(stdin string, args ...string) (string, error) {
	cmd := exec.Command(c.binary, append([]string{"kubectl", "--kubeconfig", c.kubeconfig}, args...)...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, &complaints)
	}
	return out.String(), nil
}

// namespace creates a namespace for the test.
func (c *cluster) namespace() string {
	c.t.Helper()
	name := fmt.Sprintf("%s-%05x", strings.ToLower(strings.TrimPrefix(strings.NewReplacer("/", "-", "_", "-").Replace(c.t.Name()), "Test")), rand.N(1<<20))
	c.kubectl("create", "namespace", name)
	return name
}

// component returns the process of a control plane component.
func (c *cluster) component(name string) *os.Process {
	c.t.Helper()
	list, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		c.t.Fatalf("list processes: %v", err)
	}
	for line := range strings.Lines(string(list)) {
		pid, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if c.data == "" || !strings.Contains(args, "_component "+name+" ") || !strings.Contains(args, c.data) {
			continue
		}
		number, err := strconv.Atoi(pid)
		if err != nil {
			c.t.Fatalf("process %q: %v", pid, err)
		}
		return valueOf(os.FindProcess(number))(c.t)
	}
	c.t.Fatalf("no process of %s found", name)
	return nil
}

// client makes requests without kubectl, for thousands of objects.
type client struct {
	http   *http.Client
	server string
}

func (c *cluster) client() *client {
	c.t.Helper()
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     string `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate string `json:"client-certificate-data"`
				Key         string `json:"client-key-data"`
				Token       string
			}
		}
	}
	succeed(c.t, json.Unmarshal([]byte(c.kubectl("config", "view", "--raw", "-o", "json")), &config))
	decode := func(text string) []byte {
		return valueOf(base64.StdEncoding.DecodeString(text))(c.t)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(decode(config.Clusters[0].Cluster.CA))
	pair := valueOf(tls.X509KeyPair(decode(config.Users[0].User.Certificate), decode(config.Users[0].User.Key)))(c.t)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport}, server: config.Clusters[0].Cluster.Server}
}

// create creates an object, and retries while the API server is overloaded.
func (c *client) create(ctx context.Context, path string, object any) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		status, err := c.post(ctx, path, body)
		switch busy := status == 0 || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError; {
		case err == nil, status == http.StatusConflict && !first: // It was created, but the response was lost.
			return nil
		case !busy:
			return err
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends a body. The status is 0 without a response.
func (c *client) post(ctx context.Context, path string, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return 0, err
	case response.StatusCode != http.StatusCreated:
		return response.StatusCode, fmt.Errorf("create at %s: %s: %s", path, response.Status, said)
	}
	return response.StatusCode, nil
}

// process is a program that runs until the test ends.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a program. Its output is shown if the test fails.
func start(t *testing.T, log, program string, args ...string) *process {
	t.Helper()
	output := valueOf(os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
	defer output.Close() // the program has its own copy
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	succeed(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its log shows how it ended
	}()
	t.Cleanup(func() {
		p.stop()
		if said, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s %s:\n%s", program, args[0], cut(string(said)))
		}
	})
	return p
}

// stop terminates it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}
