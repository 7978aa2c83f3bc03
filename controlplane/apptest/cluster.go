package apptest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
)

// waitTimeout is how long anything is waited for, unless Within says otherwise. What
// is waited for takes well below a second on an idle machine.
const waitTimeout = 30 * time.Second

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
	plane     *ControlPlane
	client    *client
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
	s := &shared{plane: p, client: reached, name: t.Name(), namespace: namespace, app: setpoint.New(fieldManager)}
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

// On is the same cluster in a subtest, which fails in place of the test.
func (c *Cluster) On(t testing.TB) *Cluster {
	other := *c
	other.t = t
	return &other
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

// Namespace is the one of the test.
func (c *Cluster) Namespace() string { return c.namespace }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.client.kubeconfig }

// Config is the administrator's, for clients of other sorts.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.client.config) }

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
