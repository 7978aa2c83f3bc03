package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

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

// proxyKey is where a script has its proxy.
type proxyKey struct{}

// proxy stands between programs and the API server. It can fall silent: it then drops
// what the server sends on open connections, without closing them. It can also close them.
type proxy struct {
	server   string
	silences atomic.Int64
	open     sync.Map
}

// proxyCommand: proxy FILE: starts a proxy, and writes a kubeconfig that leads
// through it. proxy silence: has it fall silent. proxy cut: has it close the open connections.
func proxyCommand(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value(proxyKey{}).(*proxy)
	if neg || len(args) != 1 {
		ts.Fatalf("usage: proxy FILE|silence|cut")
	}
	switch args[0] {
	case "silence":
		p.silences.Add(1)
		return
	case "cut":
		p.open.Range(func(near, _ any) bool {
			_ = near.(net.Conn).Close() // Either side may have closed it.
			return true
		})
		return
	}
	out, err := run(ts, "", "kubectl", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	ts.Check(err)
	server, err := url.Parse(strings.TrimSpace(out.stdout.String()))
	ts.Check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	config := strings.ReplaceAll(ts.ReadFile(ts.Getenv("KUBECONFIG")), server.Host, listener.Addr().String())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(config), 0o600))
	p.server = server.Host
	go p.serve(listener)
}

// serve ends when the listener is closed, and each connection with one of its ends.
func (p *proxy) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go p.connect(near)
	}
}

func (p *proxy) connect(near net.Conn) {
	defer near.Close()
	p.open.Store(near, true)
	defer p.open.Delete(near)
	far, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	opened := p.silences.Load()
	go func() {
		defer near.Close()
		_, _ = io.Copy(silencer{near, func() bool { return p.silences.Load() != opened }}, far) // either side may close it
	}()
	_, _ = io.Copy(far, near)
	_ = far.Close()
}

// silencer swallows what is written when it is silent.
type silencer struct {
	to     io.Writer
	silent func() bool
}

func (s silencer) Write(data []byte) (int, error) {
	if s.silent() {
		return len(data), nil
	}
	return s.to.Write(data)
}

// load is many clients that try to create pods, as dry runs, one after the other.
type load struct {
	address string // of `kubectl proxy`

	mu       sync.Mutex
	created  int
	refusals []string
	// ending says that a replica ends in good order meanwhile, and cut is how many pods
	// met that moment.
	ending      bool
	interrupted int
}

// newLoad gets ready to make load, and makes none.
func newLoad(c *testCluster) *load {
	log := filepath.Join(filepath.Dir(c.dir), "proxy.log")
	start(c.t, log, os.Getenv("SETPOINT"), "kubectl", "--kubeconfig", c.kubeconfig, "proxy", "--port=0")
	l := &load{}
	serving := regexp.MustCompile(`Starting to serve on (\S+)`)
	c.until(time.Minute, func() error {
		said, err := os.ReadFile(log)
		if found := serving.FindSubmatch(said); found != nil {
			l.address = string(found[1])
			return nil
		}
		return fmt.Errorf("kubectl proxy does not serve: %w", err)
	})
	return l
}

// whileLoaded loads with so many clients while something happens. Nothing may be refused.
func (l *load) whileLoaded(t *testing.T, clients int, something func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				l.note(l.create(ctx, "good"))
			}
		})
	}
	something()
	cancel()
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d pods, of which %d met the end of a connection", l.created, l.interrupted)
	if len(l.refusals) > 0 {
		t.Errorf("of %d pods %d were refused, the first with: %s", l.created, len(l.refusals), l.refusals[0])
	}
	l.created, l.interrupted, l.refusals = 0, 0, nil
}

// maxInterrupted is how many pods may be refused because their review was being written in
// the very moment in which a connection was closed: a machine that is busy enough reads
// too late that no more is to be written to it, and API servers do not try again.
const maxInterrupted = 2

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.ending && l.interrupted < maxInterrupted &&
		(strings.Contains(err.Error(), "write: broken pipe") || strings.Contains(err.Error(), `: EOF"`)) {
		l.interrupted++ // The connection closed while the review was written to it, or right after.
		return
	}
	if err != nil {
		l.refusals = append(l.refusals, err.Error())
		return
	}
	l.created++
}

// done is how many pods were created.
func (l *load) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.created
}

// create tries to create one pod, and says why it may not be.
func (l *load) create(ctx context.Context, name string) error {
	body := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`
	url := "http://" + l.address + "/api/v1/namespaces/default/pods?dryRun=All"
	// What was begun is ended: a request that was cut off says nothing.
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", response.Status, said)
	}
	return err
}

// Each parent of this test has so many children.
const (
	killParents  = 50
	killChildren = 10
)

// TestKilled kills -9, one after the other, everything that may be killed in the
// middle of 500 creations. Each time all of them are made in the end, once, and
// each belongs to its parent.
func TestKilled(t *testing.T) { //nolint:tparallel // The victims share the cluster, one after the other.
	t.Parallel()
	c := bootCluster(t)
	hook := &pausingHook{left: -1}
	server := httptest.NewServer(hook)
	t.Cleanup(server.Close)
	c.apply(fmt.Sprintf(crdManifest, "widgets", "kill.test", "Widget", "Namespaced"))
	c.established("widgets.kill.test")
	manager := c.run()
	c.established("compositecontrollers.setpoint.dev")
	c.apply(fmt.Sprintf(killController, server.URL))

	for _, victim := range []string{"etcd", "kube-apiserver"} {
		t.Run(victim, func(t *testing.T) {
			half := hook.pauseAfter(killParents / 2)
			c.createParents(victim)
			<-half
			c.killComponent(victim)
			hook.resume()
			c.until(2*time.Minute, func() error { return c.wrong(victim) })
			manager.expectAlive(t)
		})
	}
	t.Run("setpoint", func(t *testing.T) {
		half := hook.pauseAfter(killParents / 2)
		c.createParents("setpoint")
		<-half
		manager.kill()
		hook.resume()
		if c.wrong("setpoint") == nil {
			t.Error("there was nothing left to do")
		}
		manager = c.run()
		c.until(2*time.Minute, func() error { return c.wrong("setpoint") })
		manager.expectAlive(t)
	})
}

// killController manages the widgets of all namespaces.
const killController = `apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: kill}
spec:
  generateSelector: true
  parentResource: {apiVersion: kill.test/v1, resource: widgets}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "%s"}}}
`

// pausingHook responds with the children of every parent. A test can pause it at any
// call.
type pausingHook struct {
	mu      sync.Mutex
	left    int           // calls until it stops; negative when it does not
	paused  chan struct{} // closed when it stops
	resumed chan struct{} // closed when it goes on
}

// pauseAfter makes the hook hang after so many calls. It returns a channel that is
// closed when the hook hangs.
func (h *pausingHook) pauseAfter(calls int) (halted <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.paused, h.resumed = calls, make(chan struct{}), make(chan struct{})
	return h.paused
}

// resume makes the hook respond again, also to waiting calls.
func (h *pausingHook) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = -1
	close(h.resumed)
}

// await counts a call, and waits while the hook has stopped.
func (h *pausingHook) await() {
	h.mu.Lock()
	if h.left < 0 {
		h.mu.Unlock()
		return
	}
	if h.left > 0 {
		h.left--
		if h.left == 0 {
			close(h.paused)
		}
		h.mu.Unlock()
		return
	}
	goes := h.resumed
	h.mu.Unlock()
	<-goes
}

func (h *pausingHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Parent struct {
			Metadata struct{ Name string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.await()
	children := make([]any, killChildren)
	for i := range children {
		children[i] = map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", request.Parent.Metadata.Name, i)},
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"children": children}) // the caller may be dead
}

// createParents makes the parents in a namespace of their own.
func (c *testCluster) createParents(namespace string) {
	c.t.Helper()
	var manifest strings.Builder
	fmt.Fprintf(&manifest, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", namespace)
	for n := range killParents {
		fmt.Fprintf(&manifest, "---\n{apiVersion: kill.test/v1, kind: Widget, metadata: {name: w%d, namespace: %s}}\n", n, namespace)
	}
	c.apply(manifest.String())
}

// wrong says what is wrong with the children in a namespace, if anything.
func (c *testCluster) wrong(namespace string) error {
	out, err := c.try("", "get", "widgets.kill.test,configmaps", "-n", namespace, "-o", "json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name, UID       string
				OwnerReferences []struct{ Name, UID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	uids := map[string]string{}
	for _, item := range list.Items {
		if item.Kind == "Widget" {
			uids[item.Metadata.Name] = item.Metadata.UID
		}
	}
	children := 0
	for _, item := range list.Items {
		if item.Kind == "Widget" || item.Metadata.Name == "kube-root-ca.crt" {
			continue
		}
		children++
		parent, _, _ := strings.Cut(item.Metadata.Name, "-")
		owners := item.Metadata.OwnerReferences
		if len(owners) != 1 || owners[0].Name != parent || owners[0].UID != uids[parent] {
			return fmt.Errorf("%s belongs to %v", item.Metadata.Name, owners)
		}
	}
	if len(uids) != killParents || children != killParents*killChildren {
		return fmt.Errorf("there are %d parents and %d children", len(uids), children)
	}
	return nil
}
