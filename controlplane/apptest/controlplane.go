package apptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/controlplane"
)

// binaryVariable names the setpoint binary of tests.
const binaryVariable = "SETPOINT"

// stopTimeout is how long the end of a control plane may take.
const stopTimeout = 5 * time.Second

// ControlPlane is what the tests of a package share. The zero value is ready for
// use; it is not to be copied. A test that wants one for itself declares another.
type ControlPlane struct {
	// Executable is the setpoint binary whose processes it is made of. If empty, it
	// is $SETPOINT, else the setpoint that is found on the PATH.
	Executable string
	// Programs runs the processes with the test binary itself: set it to components.Main
	// and call Main in TestMain.
	Programs func(args []string) (code int, handled bool)
	// Nodes is the number of simulated nodes: 3 if zero, none if negative.
	Nodes int

	// mainCalled says that Main was called.
	mainCalled bool
	once       sync.Once
	// cluster is nil after an error, or if the control plane is an external one.
	cluster *controlplane.Cluster
	client  *client
	failure error
	tenants tenants
}

// Main runs the tests of a package, and ends the control plane after them. It is
// what TestMain does:
//
//	func TestMain(m *testing.M) { plane.Main(m) }
//
// The control plane is not booted before a test asks for it. Without Main it ends
// all the same, but leaves a temporary directory for the next one to remove.
func (p *ControlPlane) Main(m *testing.M) {
	p.mainCalled = true
	if p.Programs != nil {
		if code, handled := p.Programs(os.Args); handled {
			os.Exit(code)
		}
	}
	code := m.Run()
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "apptest: end the control plane:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Stop ends the control plane; Main does it. It is for one that a test declares for
// itself: t.Cleanup(func() { plane.Stop() }), before anything else. The error is
// the one why it failed before.
func (p *ControlPlane) Stop() error {
	if p.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(p.cluster.Err(), p.cluster.Stop(ctx))
}

// boot boots it, once.
func (p *ControlPlane) boot() (*client, error) {
	p.once.Do(func() {
		kubeconfig, err := p.findKubeconfig()
		if err == nil {
			p.client, err = newClient(kubeconfig)
		}
		p.failure = err
	})
	return p.client, p.failure
}

// findKubeconfig returns the kubeconfig of the external control plane, or of a new one.
func (p *ControlPlane) findKubeconfig() (string, error) {
	if external := os.Getenv(kubeconfigVariable); external != "" {
		return external, nil
	}
	executable, err := p.executable()
	if err != nil {
		return "", err
	}
	p.cluster, err = controlplane.Start(context.Background(), controlplane.Options{Executable: executable, Nodes: p.Nodes})
	if err != nil {
		return "", fmt.Errorf("boot a control plane of %s: %w", executable, err)
	}
	return p.cluster.Kubeconfig(), nil
}

// executable is the binary whose processes the control plane is made of.
func (p *ControlPlane) executable() (string, error) {
	switch {
	case p.Programs != nil && !p.mainCalled:
		// Its processes would run the tests, each of which would boot another one.
		return "", errors.New("a ControlPlane with Programs needs a TestMain that calls its Main")
	case p.Programs != nil:
		return os.Executable()
	}
	// A component may have another working directory.
	if named := cmp.Or(p.Executable, os.Getenv(binaryVariable)); named != "" {
		return filepath.Abs(named)
	}
	found, err := exec.LookPath("setpoint")
	if err != nil {
		return "", fmt.Errorf("%w: the control plane of tests is made of the setpoint binary; put it on the PATH, name it in $%s, "+
			"or set ControlPlane.Programs to components.Main", err, binaryVariable)
	}
	return found, nil
}

// New creates a namespace for a test, and boots the control plane for the first one. Use it
// to create objects before an app starts.
//
// At the end of the test its apps are stopped and its objects deleted.
func (p *ControlPlane) New(t testing.TB) *Cluster {
	t.Helper()
	reached, err := p.boot()
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := reached.createNamespace(t.Context(), prefix(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{
		tenants: &p.tenants, client: reached, external: p.cluster == nil,
		name: t.Name(), namespace: namespace, app: setpoint.New(fieldManager),
	}
	c := &Cluster{shared: s, t: t, waitTimeout: waitTimeout}
	t.Cleanup(c.cleanUp)
	return c
}

// Start is New, and Start of an app in it.
func (p *ControlPlane) Start(t testing.TB, app *setpoint.App, options ...Option) *Cluster {
	t.Helper()
	c := p.New(t)
	c.Start(app, options...)
	return c
}

// createNamespace makes a namespace whose name begins in a certain way.
func (c *client) createNamespace(ctx context.Context, prefix string) (string, error) {
	r, err := c.find(kind{"v1", "Namespace"})
	if err != nil {
		return "", err
	}
	made, err := c.objects(r, "").Create(ctx, object(kind{"v1", "Namespace"}, map[string]any{"generateName": prefix}),
		metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return "", fmt.Errorf("make a namespace for the test: %w", err)
	}
	return made.GetName(), nil
}

// maxPrefix leaves space for the unique suffix of namespace names.
const maxPrefix = 40

// prefix is what the name of a test's namespace begins with.
func prefix(test string) string {
	allowed := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	name := strings.Trim(strings.Map(allowed, strings.ToLower(test)), "-")
	return name[:min(len(name), maxPrefix)] + "-"
}

// On is the same cluster in a subtest, which fails in place of the test.
func (c *Cluster) On(t testing.TB) *Cluster {
	other := *c
	other.t = t
	return &other
}

// Namespace is the one of the test.
func (c *Cluster) Namespace() string { return c.namespace }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.client.kubeconfig }

// Config is the administrator's, for clients of other sorts.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.client.config) }
