package apptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane"
)

// The environment of tests.
const (
	binaryVariable     = "SETPOINT"
	kubeconfigVariable = "SETPOINT_TEST_KUBECONFIG"
)

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

	mu sync.Mutex
	// clusterWide is the test whose apps run in all namespaces, namespaced are those with
	// apps in their own.
	clusterWide *shared
	namespaced  map[*shared]bool
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
		kubeconfig, err := p.kubeconfig()
		if err == nil {
			p.client, err = newClient(kubeconfig)
		}
		p.failure = err
	})
	return p.client, p.failure
}

// kubeconfig returns the kubeconfig of the external control plane, or of a new one.
func (p *ControlPlane) kubeconfig() (string, error) {
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

// acquire notes that a test has an app at work, in its own namespace or in all; an
// error says that another one is in the way. Leave ends that.
func (p *ControlPlane) acquire(s *shared, allNamespaces bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.clusterWide; other != nil && other != s {
		return fmt.Errorf("%s runs an app in all namespaces, like this test: do not run them in parallel", other.name)
	}
	if allNamespaces {
		for other := range p.namespaced {
			if other != s {
				return fmt.Errorf("%s runs an app, and this test runs one in all namespaces: do not run them in parallel", other.name)
			}
		}
		p.clusterWide = s
	}
	if p.namespaced == nil {
		p.namespaced = map[*shared]bool{}
	}
	p.namespaced[s] = true
	return nil
}

func (p *ControlPlane) release(s *shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.namespaced, s)
	if p.clusterWide == s {
		p.clusterWide = nil
	}
}
