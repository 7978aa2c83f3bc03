// Package manager runs controllers against one cluster. It wires all other packages
// together and is the only one that knows them all.
//
// It installs the CRDs, discovers what the API server serves, starts and stops one
// controller per controller object, and reports on each in its status, events, metrics and
// health endpoints. How a controller works is in the packages below internal/controller.
package manager

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lease"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Manager runs controllers against one cluster.
type Manager struct {
	options         Options
	log             *slog.Logger
	client          rest.Interface
	requests        *rbac.Requests
	resolver        *kinds.Resolver
	crds            *crds.Installer
	store           *cache.Cache
	access          *identity.Reviewer
	permissions     *rbac.Access
	leases          *lease.Observer
	metrics         *serving.Metrics
	events          *events.Writer
	controllers     *controllerSet
	webhooks        *serving.Webhooks
	inFlight        *calls.InFlight
	endpoints       *calls.Endpoints
	connections     *webhook.ConnectionLimiter
	backends        *backend.Backends
	metacontrollers *conflicts.Detector
	others          *conflicts.Others
	leader          *leader.Elector
	processLease    *leader.ProcessLease
	history         *inspect.History
	recorders       recording.Recorders
	tracer          *trace.Tracer
	stopTraces      func()
	started         time.Time
	lastDigest      digestCache
	ready           chan struct{}
	// awaitingCRDs is set while a standby replica waits for the leader to install CRDs.
	awaitingCRDs atomic.Bool
}

// New returns a Manager. It sends no request.
func New(o Options) (*Manager, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	requests := rbac.NewRequests(time.Now())
	o.Config = requests.Config(o.Config)
	client, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("create a client for the cluster: %w", err)
	}
	m := &Manager{options: o, log: o.Log, client: client, requests: requests, resolver: &kinds.Resolver{Client: client},
		inFlight:  calls.NewInFlight(),
		endpoints: calls.NewEndpoints(), connections: webhook.NewConnectionLimiter(serving.MaxOpenFiles() / 2), started: time.Now(),
		ready: make(chan struct{})}
	m.history = inspect.NewHistory(inspect.HistoryOptions(o.History), m.started)
	if m.leader, err = leader.New(o.LeaderElection, o.config(), o.Log); err != nil {
		return nil, err
	}
	if o.ProcessLease && !o.LeaderElection.Enabled {
		if m.processLease, err = leader.NewProcessLease(o.LeaderElection, o.Namespaces, o.config(), o.Log); err != nil {
			return nil, err
		}
	}
	m.store = cache.New(client, cache.Options{Log: o.Log, OnHealth: m.onWatchHealth})
	m.access, m.leases = identity.NewReviewer(client), lease.NewObserver(client, clock.RealClock{})
	m.permissions = &rbac.Access{Process: o.process(), Client: client, Accounts: m.access}
	if m.metrics = o.Metrics; m.metrics == nil {
		m.metrics = serving.NewMetrics()
	}
	m.tracer, m.stopTraces, err = o.Traces.Start(context.Background(), trace.Process{
		Service: cmp.Or(o.Name, programName), Version: o.Version, Log: o.Log, Dropped: m.metrics.ObserveDroppedSpans,
	})
	if err != nil {
		return nil, err
	}
	m.backends = backend.New(o.Log, m.metrics.ObserveNotification)
	m.events = events.NewWriter(client, events.Options{
		Component: m.name(), Instance: serving.InstanceName(), QPS: o.EventsQPS, Burst: o.EventsBurst,
		Dropped: m.metrics.ObserveDroppedEvent,
		Log:     o.Log,
	})
	if m.crds, err = newInstaller(m); err != nil {
		return nil, err
	}
	m.metacontrollers = conflicts.NewDetector(client, m.leader.IsLease)
	m.others = &conflicts.Others{Client: client, DevRun: o.DevRun, Environment: m.compileEnvironment}
	m.controllers = newControllerSet(m)
	m.webhooks = newWebhooks(m)
	if m.processLease != nil {
		m.processLease.OnHeld = m.webhooks.Publish
	}
	m.metrics.MustRegister(&serving.Collector{Cache: m.store, Controllers: m.controllers.gauges}, m.webhooks)
	if o.HookProcesses != nil {
		m.metrics.MustRegister(o.HookProcesses)
	}
	m.leader.RegisterMetric(m.metrics.Registry)
	return m, nil
}

// onWatchHealth retries failed writes when a watch works again: the API server is back. Where a
// watch of one namespace is forbidden, it checks whether its controllers can go on in others, and
// reports those whose code may no longer be read.
func (m *Manager) onWatchHealth(selection cache.Selection, err error) {
	if apierrors.IsForbidden(err) && selection.Namespace != "" {
		m.controllers.enqueueUsersOf(selection.Resource)
	}
	if err == nil || apierrors.IsForbidden(err) {
		m.controllers.enqueueReadersOf(selection, err == nil)
	}
	if err != nil {
		return
	}
	for _, r := range m.controllers.runningControllers() {
		r.retryWrites()
	}
}

// newClient returns the client that all packages share. It has no rate limit by default,
// since the API server has priority and fairness.
func newClient(o Options) (rest.Interface, error) {
	c := o.config()
	c.QPS, c.Burst = -1, -1
	if o.ClientQPS > 0 {
		c.QPS, c.Burst = o.ClientQPS, cmp.Or(o.ClientBurst, max(1, int(2*o.ClientQPS)))
	}
	// The server is near: compression costs both sides more than it saves.
	c.DisableCompression = true
	c.APIPath, c.GroupVersion = "/", &schema.GroupVersion{}
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // decodes Status
	c.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return rest.UnversionedRESTClientForConfigAndClient(c, client)
}

// finalizers returns where finalizers are removed.
func (m *Manager) finalizers() *finalizers.Cluster {
	return &finalizers.Cluster{
		Client: m.client, Resolver: m.resolver, Access: m.access, FieldManager: programName, Limits: m.options.Namespaces,
	}
}

// Run runs until the context ends. An error says why it could not start or stop.
func (m *Manager) Run(ctx context.Context) error {
	defer m.stopTraces()
	endpoints, unpublish, err := m.listen(ctx)
	if err != nil {
		return err
	}
	defer unpublish()
	stopRecording, err := m.startRecording()
	if err != nil {
		serving.CloseAll(endpoints)
		return err
	}
	defer stopRecording()
	group, ctx := errgroup.WithContext(ctx)
	for _, endpoint := range endpoints {
		group.Go(func() error { return endpoint.Serve(ctx) })
	}
	group.Go(func() error {
		// First, since an unsupported cluster must stay as it is.
		if err := m.checkKubernetes(ctx); err != nil {
			return err
		}
		group.Go(func() error { return m.webhooks.Run(ctx) })
		group.Go(func() error { m.reviewCode(ctx); return nil })
		group.Go(func() error { m.processLease.Run(ctx); return nil })
		group.Go(func() error { m.leader.WhileLeading(ctx, m.removeStaleWebhooks); return nil })
		return m.runControllers(ctx)
	})
	return group.Wait()
}

// Ready is closed when the CRDs are installed, the caches of all controllers found at the
// start are synced, and the API server calls their webhooks.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Leads reports whether this process is the leader; without leader election it always is, once it runs.
func (m *Manager) Leads() bool { return m.leader.Leads() }

// HookRestarted syncs all parents of the controllers with a hook at an address, host or
// host:port.
func (m *Manager) HookRestarted(address string) {
	m.endpoints.SetUp(address)
	m.controllers.hookRestarted(address)
}

// HookDown marks the controllers with a hook at an address, host or host:port, as not ready
// until HookRestarted.
func (m *Manager) HookDown(address string, err error) { m.endpoints.SetDown(address, err) }

// compileEnvironment returns what the compiler depends on.
func (m *Manager) compileEnvironment() compile.Environment {
	reach := m.options.reach()
	return compile.Environment{
		Resolve:       m.resolver.Resolve,
		ResolveKind:   m.resolver.ResolveKind,
		Known:         m.resolver.Known.Find,
		StatusOf:      m.crds.StatusOf,
		Dial:          m.options.Dial,
		Routed:        m.options.Routed,
		UserAgent:     "setpoint/" + m.options.Version,
		Limits:        m.options.HookLimits,
		Inline:        m.options.Inline,
		Expressions:   m.options.Expressions,
		Exec:          m.options.Exec,
		Connections:   m.connections,
		Workers:       m.options.Workers,
		Resync:        m.options.Resync,
		Namespace:     m.options.Namespace,
		Namespaces:    m.options.Namespaces,
		PodNamespace:  reach.PodNamespace(),
		ApplyStrategy: plan.ApplyStrategy(m.options.ApplyStrategy), DisableDeletionGuard: m.options.NoDeletionGuard,
		FieldManager:       m.options.FieldManager,
		DefaultAccount:     m.options.DefaultAccount,
		OwnRights:          m.options.OwnRights,
		Store:              m.store,
		CredentialsRenewed: m.controllers.credentialsRenewed,
		ObserveCall:        m.called,
	}
}

// handlerTools returns the dependencies of handler programs that act as a ServiceAccount.
func (m *Manager) handlerTools(account identity.Account) handler.Tools {
	return handler.Tools{
		Store: m.store, Writer: m.writer(), Access: m.access, Backends: m.backends,
		Observer: m.observer(account), Unrecorded: m.recordsNoSteps(), Log: m.log, Tracer: m.tracer,
	}
}

// composeTools returns the dependencies of programs of hooks that act as a ServiceAccount.
func (m *Manager) composeTools(account identity.Account) composite.Tools {
	return composite.Tools{
		Store:    m.store,
		Writer:   m.writer(),
		Access:   m.access,
		Observer: m.observer(account), Unrecorded: m.recordsNoSteps(),
		Log:     m.log,
		Tracer:  m.tracer,
		Resolve: m.resolver.Resolve,
		Known:   m.resolver.Known.Find,
	}
}

func (m *Manager) writer() *apply.Writer {
	return apply.New(m.client, apply.Options{Observe: m.metrics.ObserveRequest})
}
