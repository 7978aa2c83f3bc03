package soak

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
)

//go:embed testdata/*.yaml
var manifests embed.FS

// namespace is where everything happens.
const namespace = "soak"

// patience is how long one request may take: the API server may be dead.
const patience = 5 * time.Second

// cluster is the API as those see it who use it.
type cluster struct {
	dynamic.Interface
	tally *counters
	// canaries are the versions that must stay, by namespace and name.
	canaries map[string]string
}

// connect waits until there is an API server.
func connect(t *testing.T, kubeconfig string, count *counters) *cluster {
	t.Helper()
	c := &cluster{tally: count, canaries: map[string]string{}}
	eventually(t, "the control plane", func(ctx context.Context) error {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return err
		}
		config.QPS, config.Timeout = -1, patience
		if c.Interface, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
		_, err = c.Resource(resourceOf("v1", "ConfigMap")).Namespace("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	return c
}

// eventually tries for a while.
func eventually(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *convergeTimeout)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("wait for %s: %v", what, err)
		}
	}
}

// resourceOf names the resource of a kind, which here is its plural.
func resourceOf(apiVersion, kind string) schema.GroupVersionResource {
	version, _ := schema.ParseGroupVersion(apiVersion)
	return version.WithResource(strings.ToLower(kind) + "s")
}

func parentsOf(kind string) schema.GroupVersionResource { return resourceOf("soak.test/v1", kind) }

// in is the collection that a kind has here.
func (c *cluster) in(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.Resource(resource).Namespace(namespace)
}

// apply creates what a manifest holds, as soon as its kinds are served.
func (c *cluster) apply(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var stored []*unstructured.Unstructured
	for text := range strings.SplitSeq(manifest, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		eventually(t, o.GetKind()+" "+o.GetName(), func(ctx context.Context) error {
			collection := c.Resource(resourceOf(o.GetAPIVersion(), o.GetKind()))
			made, err := collection.Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				made, err = collection.Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
			}
			stored = append(stored, made)
			return err
		})
	}
	return stored
}

// install creates kinds and controllers.
func (c *cluster) install(t *testing.T, hook string) {
	t.Helper()
	c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	text := template.Must(template.New("kinds.yaml").Funcs(template.FuncMap{"title": title}).ParseFS(manifests, "testdata/kinds.yaml"))
	var rendered bytes.Buffer
	must.Succeed(t, text.Execute(&rendered, append(kinds(), tent)))
	_, all, _ := strings.Cut(rendered.String(), "---\n")
	c.apply(t, all)
	for _, kind := range kinds() {
		eventually(t, kind+"s to be served", func(ctx context.Context) error {
			_, err := c.in(parentsOf(kind)).List(ctx, metav1.ListOptions{})
			return err
		})
	}
	c.apply(t, read(t, "camp.yaml"))
	c.apply(t, strings.ReplaceAll(read(t, "controllers.yaml"), "HOOK", hook))
}

// title makes the name of a kind of that of one object.
func title(kind string) string { return strings.ToUpper(kind[:1]) + kind[1:] }

func read(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(manifests.ReadFile("testdata/" + name)).In(t))
}

// plantCanaries creates objects that Setpoint must not change.
func (c *cluster) plantCanaries(t *testing.T) {
	t.Helper()
	keeper := c.apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: keeper, namespace: "+namespace+"}}")[0]
	made := c.apply(t, strings.ReplaceAll(read(t, "canaries.yaml"), "KEEPER", string(keeper.GetUID())))
	for _, o := range append(made, keeper) {
		if o.GetKind() == "ConfigMap" {
			c.canaries[o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
		}
	}
	c.apply(t, "{apiVersion: soak.test/v1, kind: Plot, metadata: {name: "+canary+", namespace: "+namespace+"}, spec: {children: 1, value: a}}")
	c.apply(t, "{apiVersion: soak.test/v1, kind: Lamp, metadata: {name: lamp-dark, namespace: "+namespace+"}, spec: {children: 1, value: a}}")
}

// all lists every parent and child, by resource.
func (c *cluster) all(ctx context.Context) (map[string][]unstructured.Unstructured, error) {
	resources := []schema.GroupVersionResource{resourceOf("v1", "ConfigMap"), resourceOf("v1", "Secret")}
	for _, kind := range kinds() {
		resources = append(resources, parentsOf(kind))
	}
	found := map[string][]unstructured.Unstructured{}
	for _, resource := range resources {
		list, err := c.in(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		found[resource.Resource] = list.Items
	}
	return found, nil
}

// versions are those of every parent and child.
func (c *cluster) versions(t *testing.T) map[string]string {
	t.Helper()
	found := must.Get(c.all(t.Context())).In(t)
	versions := map[string]string{}
	for resource, items := range found {
		for _, o := range items {
			versions[resource+" "+o.GetName()] = o.GetResourceVersion()
		}
	}
	return versions
}

// process is a program that runs beside the test and ends with it.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a program whose output is added to a log.
func start(log, program string, args ...string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the program has its own copy
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill is kill -9.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// stop asks it to end.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	<-p.ended
}

// tail is the end of a log.
func tail(log string) string {
	const size = 4000
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}

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
