// Package manager runs controllers against one cluster. It wires all other packages
// together and is the only one that knows them all.
//
// It installs the CRDs, connects what controllers share, serves health and metrics, shows the state of the process, and
// removes what a stopped process left. What starts, stops and reports on controllers is in package controllers; how a
// controller works is in the packages below internal/controller.
package manager

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lease"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Manager runs controllers against one cluster.
type Manager struct {
	dependencies
	options      Options
	controllers  *controllers.Set
	connections  *webhook.ConnectionLimiter
	processLease *leader.ProcessLease
	stopTraces   func()
	started      time.Time
	lastDigest   digestCache
	// awaitingCRDs is set while a standby replica waits for the leader to install CRDs.
	awaitingCRDs atomic.Bool
}

// dependencies are what the controllers share.
type dependencies = controllers.Dependencies

// New returns a Manager. It sends no request.
func New(o Options) (*Manager, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	client, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("create a client for the cluster: %w", err)
	}
	m := &Manager{options: o, connections: webhook.NewConnectionLimiter(serving.MaxOpenFiles() / 2), started: time.Now(),
		dependencies: dependencies{
			Dependencies: running.Dependencies{
				Log: o.Log, Client: client, Resolver: &kinds.Resolver{Client: client}, InFlight: calls.NewInFlight(),
				Endpoints: calls.NewEndpoints(), Recorders: &recording.Recorders{}, Unrecorded: o.History.Off && o.Recording.File == "",
			},
			Process: cmp.Or(o.Name, programName), Inline: o.Inline, Selector: o.controllerSelector(), GoControllers: o.GoControllers,
			Namespace: o.Namespace,
		}}
	m.Environment = m.compileEnvironment
	m.History = inspect.NewHistory(o.History, m.started)
	if m.Leader, err = leader.New(o.LeaderElection, o.config(), o.Log); err != nil {
		return nil, err
	}
	if o.ProcessLease && !o.LeaderElection.Enabled {
		if m.processLease, err = leader.NewProcessLease(o.LeaderElection, o.Namespaces, o.config(), o.Log); err != nil {
			return nil, err
		}
	}
	m.Store = cache.New(client, cache.Options{Log: o.Log, OnHealth: func(of cache.Selection,
		err error) {
		m.controllers.ObserveWatch(of, err)
	}})
	m.Permissions = &rbac.Access{Process: o.permissionsProcess(), Client: client, Accounts: identity.NewReviewer(client)}
	m.Finalizers = &finalizers.Cluster{
		Client: client, Resolver: m.Resolver, Access: m.Permissions.Accounts, FieldManager: programName, Limits: o.Namespaces,
	}
	if m.Metrics = o.Metrics; m.Metrics == nil {
		m.Metrics = serving.NewMetrics()
	}
	m.Tracer, m.stopTraces, err = o.Traces.Start(context.Background(), trace.Process{
		Service: m.Process, Version: o.Version, Log: o.Log, Dropped: m.Metrics.ObserveDroppedSpans,
	})
	if err != nil {
		return nil, err
	}
	m.Backends = backend.New(o.Log, m.Metrics.ObserveNotification)
	m.Events = events.NewWriter(client, events.Options{
		Component: m.Process, Instance: serving.InstanceName(), QPS: o.EventsQPS, Burst: o.EventsBurst,
		Dropped: m.Metrics.ObserveDroppedEvent,
		Log:     o.Log,
	})
	if m.CRDs, err = newInstaller(m); err != nil {
		return nil, err
	}
	m.Metacontrollers = conflicts.NewDetector(client, m.Leader.IsLease)
	m.Owners = &conflicts.Owners{
		Own: m.instance, LeaderElection: o.LeaderElection.Enabled, Leases: lease.NewObserver(client, clock.RealClock{}),
	}
	m.Others = &conflicts.Others{Client: client, DevRun: o.DevRun, Environment: m.compileEnvironment}
	m.Webhooks = newWebhooks(m)
	m.controllers = controllers.NewSet(m.dependencies)
	if m.processLease != nil {
		m.processLease.OnHeld = m.Webhooks.Publish
	}
	m.Metrics.MustRegister(&serving.Collector{Cache: m.Store, Controllers: m.controllers.Gauges, Webhooks: m.Webhooks,
		HookProcesses: o.HookProcesses})
	m.Leader.RegisterMetric(m.Metrics.Registry)
	return m, nil
}

// newInstaller returns the installer of the CRDs of controllers, unless SkipCRDs is set or a Go program declares all
// controllers, and of those of the options. An upgrade of Setpoint's own CRDs is never refused.
func newInstaller(m *Manager) (*crds.Installer, error) {
	o := &m.options
	installer := crds.Options{
		Skip: o.SkipCRDs, Program: m.Process, Client: m.Client, Log: m.Log, Resolve: m.Resolver.Resolve,
		EventAt: m.Events.EventAt,
		Checked: func() { m.controllers.ResetReported() },
	}
	var err error
	if installer.Install, err = crds.Parse(o.CRDs, o.AllowBreakingCRDs); err != nil {
		return nil, fmt.Errorf("read the CRDs of the program: %w", err)
	}
	if len(o.GoControllers) > 0 {
		return crds.NewInstaller(installer), nil
	}
	if installer.Corrected, err = crds.Parse(crd.All(), true); err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	if !o.SkipCRDs {
		installer.Install = slices.Concat(installer.Corrected, installer.Install)
	}
	return crds.NewInstaller(installer), nil
}

func newWebhooks(m *Manager) *serving.Webhooks {
	return serving.NewWebhooks(serving.WebhookOptions{
		Reach: m.options.reach(), APIServer: m.options.Config.Host, Store: m.Store, Client: m.Client, Leader: m.Leader, Log: m.Log,
		Tracer: m.Tracer,
		Lease:  m.processLease.Held, Exempt: m.ownObjects(), Observer: reviewObserver{m},
		Started: func() bool { return m.controllers.Started() },
		Listed:  func() bool { return m.controllers.AdmissionControllersListed() },
	})
}

// ownObjects are the objects that this Manager depends on. Its webhooks exempt them: with its hook down, a review of
// Leases would end the leadership that could remove the webhook.
func (m *Manager) ownObjects() register.ExemptObjects {
	o := &m.options
	own := register.ExemptObjects{Leases: []types.NamespacedName{
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.Name},
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.ProcessLeaseName(o.Namespaces)},
	}}
	reach, inspect := o.reach(), o.inspectEndpoint()
	for _, secret := range []types.NamespacedName{reach.CertificateSecret(), inspect.Secret()} {
		if secret != (types.NamespacedName{}) {
			own.Secrets = append(own.Secrets, secret)
		}
	}
	own.CRDs = m.CRDs.Names()
	return own
}

// instance returns how this Manager appears in the status of controllers; nil if it has no Lease by which others see
// that it is alive.
func (m *Manager) instance() *setpoint.Instance {
	o, e := &m.options, &m.options.LeaderElection
	if len(o.GoControllers) > 0 || !e.Enabled && !m.processLease.Usable() {
		return nil
	}
	return &setpoint.Instance{Lease: e.Namespace + "/" + e.Name, Namespaces: slices.Sorted(slices.Values(o.Namespaces))}
}

// Ready is closed when the CRDs are installed, the caches of all controllers found at the
// start are synced, and the API server calls their webhooks.
func (m *Manager) Ready() <-chan struct{} { return m.controllers.Ready() }

// Leads reports whether this process is the leader; without leader election it always is, once it runs.
func (m *Manager) Leads() bool { return m.Leader.Leads() }

// HookRestarted syncs all parents of the controllers with a hook at an address, host or host:port.
func (m *Manager) HookRestarted(address string) {
	m.Endpoints.SetUp(address)
	m.controllers.HookRestarted(address)
}

// HookDown marks the controllers with a hook at an address, host or host:port, as not ready until HookRestarted.
func (m *Manager) HookDown(address string, err error) { m.Endpoints.SetDown(address, err) }

// compileEnvironment returns what the compiler depends on.
func (m *Manager) compileEnvironment() compile.Environment {
	reach := m.options.reach()
	return compile.Environment{
		Settings:           m.options.Settings,
		Resolve:            m.Resolver.Resolve,
		ResolveKind:        m.Resolver.ResolveKind,
		Known:              m.Resolver.Known.Find,
		StatusOf:           m.CRDs.StatusOf,
		UserAgent:          "setpoint/" + m.options.Version,
		Connections:        m.connections,
		PodNamespace:       reach.PodNamespace(),
		Store:              m.Store,
		CredentialsRenewed: m.controllers.CredentialsRenewed,
		ObserveCall:        m.called,
	}
}

// called counts a call of a hook. Calls of handlers and reviews are counted by their names instead.
func (m *Manager) called(program, address string, e call.Result) {
	m.Endpoints.RecordCall(program, address, e)
	m.Metrics.ObserveHookCall(program, address, e)
	if e.HookType != call.Handle && e.HookType != call.Admit {
		m.History.AddHookCall(program, string(e.HookType), strconv.Itoa(e.Code), e.Duration)
	}
}

// digestInterval is how often the state of controllers is compared while a client waits.
const digestInterval = time.Second

// digestCache is the digest of the state of all controllers.
type digestCache struct {
	mu      sync.Mutex
	digest  uint64
	updated time.Time
}

// updateDigest computes the digest, at most once per interval for all clients that wait, and marks the history as changed
// if it differs.
func (m *Manager) updateDigest() {
	l := &m.lastDigest
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.updated) < digestInterval/2 {
		return
	}
	l.updated = time.Now()
	if digest := m.controllers.StateDigest(); digest != l.digest {
		l.digest = digest
		m.History.NotifyChange()
	}
}
