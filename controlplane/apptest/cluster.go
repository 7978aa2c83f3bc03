package apptest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint"
)

// waitTimeout is how long anything is waited for, unless Within says otherwise. What
// is waited for takes well below a second on an idle machine.
const waitTimeout = 30 * time.Second

// kubeconfigVariable names the kubeconfig of a control plane that stays after the tests.
const kubeconfigVariable = "SETPOINT_TEST_KUBECONFIG"

// Cluster is a test's part of a control plane: a namespace of its own, and the apps
// that it has started. Its methods, and the functions that take it, fail the test
// when something goes wrong.
type Cluster struct {
	*shared

	t           testing.TB
	waitTimeout time.Duration
	// untyped is the kind that Unstructured stands for.
	untyped kind
}

// shared is what a Cluster and those made of it have in common.
type shared struct {
	tenants *tenants
	client  *client
	// external says that the control plane stays after the tests.
	external  bool
	name      string // the test's
	namespace string

	mu sync.Mutex
	// app is the one that was started last; it knows which kinds Go types are.
	app  *setpoint.App
	runs []*appRun
	// created are the objects in no namespace that the test has applied.
	created []reference
	// allNamespaces says that an app was at work in all namespaces.
	allNamespaces bool
}

// Within returns the same cluster with another timeout for waiting; the default is 30
// seconds.
func (c *Cluster) Within(d time.Duration) *Cluster {
	other := *c
	other.waitTimeout = d
	return &other
}

// Of is the same cluster where setpoint.Unstructured stands for a kind, such as
// Of("example.com/v1", "Thing").
func (c *Cluster) Of(apiVersion, name string) *Cluster {
	other := *c
	other.untyped = kind{apiVersion, name}
	return &other
}

// context returns a context for requests, also in cleanups, after the test's own context
// has ended. Its timeout is that of Within, or the rest of the test's time if that is less.
func (c *Cluster) context() (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(c.t.Context())
	limit := time.Now().Add(c.waitTimeout)
	if bound, ok := c.t.(interface{ Deadline() (time.Time, bool) }); ok {
		// Later, the go command kills the test binary without a message.
		if last, bounded := bound.Deadline(); bounded && last.Add(-time.Second).Before(limit) {
			limit = last.Add(-time.Second)
		}
	}
	return context.WithDeadline(ctx, limit)
}

// tenants are the tests with an app at work in a control plane.
type tenants struct {
	mu sync.Mutex
	// clusterWide is the test whose apps run in all namespaces, namespaced are those with
	// apps in their own.
	clusterWide *shared
	namespaced  map[*shared]bool
}

// acquire notes that a test has an app at work, in its own namespace or in all; an
// error says that another one is in the way. Leave ends that.
func (t *tenants) acquire(s *shared, allNamespaces bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.clusterWide; other != nil && other != s {
		return fmt.Errorf("%s runs an app in all namespaces, like this test: do not run them in parallel", other.name)
	}
	if allNamespaces {
		for other := range t.namespaced {
			if other != s {
				return fmt.Errorf("%s runs an app, and this test runs one in all namespaces: do not run them in parallel", other.name)
			}
		}
		t.clusterWide = s
	}
	if t.namespaced == nil {
		t.namespaced = map[*shared]bool{}
	}
	t.namespaced[s] = true
	return nil
}

func (t *tenants) release(s *shared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.namespaced, s)
	if t.clusterWide == s {
		t.clusterWide = nil
	}
}

// appRun is an app at work.
type appRun struct {
	cancel context.CancelFunc
	ready  chan struct{}
	// ended is closed when it has come to rest, with an error or nil.
	ended chan struct{}
	err   error
	// errReported reports whether the test has stopped the app and knows err,
	// exitReported whether the test knows that the app has stopped by itself.
	errReported, exitReported bool
	log                       *output
}

func (r *appRun) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// output is the output of a test, until an app has come to rest: who writes to it
// when the test is over ends the process.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return len(p), nil
	}
	return o.to.Write(p)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = nil
}
