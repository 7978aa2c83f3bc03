package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/request"
)

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
		if err := checkKubernetes(ctx, m.Client, m.Log); err != nil {
			return err
		}
		group.Go(func() error { return m.Webhooks.Run(ctx) })
		group.Go(func() error { m.reviewCode(ctx); return nil })
		group.Go(func() error { m.processLease.Run(ctx); return nil })
		group.Go(func() error { m.Leader.WhileLeading(ctx, m.removeStaleWebhooks); return nil })
		return m.runControllers(ctx)
	})
	return group.Wait()
}

// runControllers runs the controllers and the leader election. The Lease is held until all work has stopped.
func (m *Manager) runControllers(ctx context.Context) error {
	defer m.Store.Close()
	defer m.Events.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leaderCtx, stopLeading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeading()
	worked, led := make(chan error, 1), make(chan error, 1)
	go func() { worked <- m.watchAndRun(ctx) }()
	go func() { led <- m.Leader.Run(leaderCtx, m.CRDs.Install) }()
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	context.AfterFunc(ctx, func() { time.AfterFunc(m.options.ShutdownTimeout, end) })
	select {
	case <-late.Done():
		m.logUnfinished()
		return fmt.Errorf("work did not stop within the shutdown timeout of %s; it must return when its context ends",
			m.options.ShutdownTimeout)
	case err := <-worked:
		stopLeading()
		return errors.Join(err, <-led)
	case err := <-led:
		stop()
		if errors.Is(err, leader.ErrStillWorking) {
			m.logUnfinished()
		}
		select {
		case also := <-worked:
			return errors.Join(err, also)
		case <-time.After(m.options.LeaderElection.Grace()):
			// A hook that ignores its context must not delay the exit.
			return err
		}
	}
}

// logUnfinished logs the tasks that did not stop.
func (m *Manager) logUnfinished() {
	for _, what := range m.options.UnfinishedTasks() {
		m.Log.Error("did not stop within the shutdown timeout", "what", what)
	}
}

// watchAndRun runs the controllers once the leader is known and the CRDs are installed.
func (m *Manager) watchAndRun(ctx context.Context) error {
	select {
	case <-m.Leader.Known():
	case <-ctx.Done():
		return nil
	}
	if err := m.awaitCRDsAsStandby(ctx); err != nil {
		return err
	}
	defer m.CRDs.Watch(ctx, m.Store, len(m.options.GoControllers) > 0)()
	m.controllers.Run(ctx)
	return nil
}

// awaitCRDsAsStandby waits until the CRDs are served that the leader installs. A leader of an older release never
// installs them: it stops in a rolling update as soon as this replica is ready.
func (m *Manager) awaitCRDsAsStandby(ctx context.Context) error {
	if m.Leader.Leads() {
		return nil
	}
	m.awaitingCRDs.Store(m.CRDs.Missing(ctx))
	defer m.awaitingCRDs.Store(false)
	return m.CRDs.Await(ctx)
}

// listen opens all endpoints, except for webhooks. The address of the inspect endpoint is
// published until unpublish is called.
func (m *Manager) listen(ctx context.Context) (endpoints []serving.Endpoint, unpublish func(), err error) {
	defer func() {
		if err != nil {
			serving.CloseAll(endpoints)
		}
	}()
	if endpoints, err = serving.Open(ctx, m.endpoints()); err != nil {
		return nil, nil, err
	}
	if m.options.Dashboard != nil {
		pages, err := m.options.Dashboard.Open(ctx, DashboardProcess{Config: m.options.Config, Source: m.Inspect(),
			Version: m.options.Version, Log: m.Log})
		if err != nil {
			return endpoints, nil, fmt.Errorf("serve the dashboard: %w", err)
		}
		endpoints = append(endpoints, pages...)
	}
	inspect := m.options.inspectEndpoint()
	inspect.Config, inspect.Source, inspect.Published = m.options.config(), m.Inspect(), m.Leader.SetAddress
	inspected, unpublish, err := inspect.Open(ctx)
	return append(endpoints, inspected...), unpublish, err
}

// endpoints returns the configuration of health and metrics.
func (m *Manager) endpoints() serving.Options {
	return serving.Options{
		Address: m.options.Address, HealthAddress: m.options.HealthAddress, Profiling: m.options.Profiling,
		Metrics: m.Metrics, Healthy: m.checkHealth, HealthPath: m.options.HealthPath, Unready: m.checkReady, Log: m.Log,
	}
}

// checkHealth returns what a process that belongs to this one says of its health, or why one of them is unhealthy.
func (m *Manager) checkHealth() ([]byte, error) {
	if err := m.InFlight.CheckStuck(); err != nil || m.options.Health == nil {
		return nil, err
	}
	return m.options.Health()
}

// checkReady returns why the manager is not ready: caches that are not synced, a Lease that
// it may not acquire, or a controller that cannot run.
func (m *Manager) checkReady() error {
	if err := m.Leader.Problem(); err != nil {
		return err
	}
	select {
	case <-m.controllers.Ready():
	default:
		if m.awaitingCRDs.Load() && !m.Leader.Leads() {
			return nil
		}
		return errors.New("starting")
	}
	if err := m.CRDs.CheckDeleted(); err != nil {
		return err
	}
	if m.options.Health != nil {
		if _, err := m.options.Health(); err != nil {
			return err
		}
	}
	if m.options.Unready != nil {
		if err := m.options.Unready(); err != nil {
			return err
		}
	}
	return m.controllers.CheckReady()
}

// oldestKubernetes is the oldest supported version: `make test-kubernetes` runs it.
const oldestKubernetes = "1.30"

// checkKubernetes waits for the API server and refuses versions that are too old. A version
// that cannot be read is not refused.
func checkKubernetes(ctx context.Context, client rest.Interface, log *slog.Logger) error {
	served := awaitVersion(ctx, client, log)
	if ctx.Err() == nil {
		log.Info("connected to the API server", "kubernetes", cmp.Or(served.GitVersion, "unknown"))
	}
	return CheckVersion(served.GitVersion)
}

// awaitVersion returns the version of the API server, once it responds.
func awaitVersion(ctx context.Context, client rest.Interface, log *slog.Logger) (served apiversion.Info) {
	logged := ""
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		data, err := request.Do(ctx, client.Get().AbsPath("/version"))
		if err == nil {
			return true, json.Unmarshal(data, &served)
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code < 500 {
			return false, err
		}
		if err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			log.Warn("API server does not respond; retrying", "error", logged)
		}
		return false, nil
	})
	if err != nil && ctx.Err() == nil {
		log.Warn("version of the API server not readable", "error", err.Error())
	}
	return served
}

// CheckVersion refuses versions of Kubernetes that are too old. Those of development builds, 0.0.0, are
// allowed, and so are those that are no semantic versions.
func CheckVersion(served string) error {
	found, err := version.ParseGeneric(served)
	if err == nil && found.Major() > 0 && found.LessThan(version.MustParseGeneric(oldestKubernetes)) {
		return fmt.Errorf("the cluster runs Kubernetes %s, and Setpoint supports %s and newer: upgrade the cluster, or use an older "+
			"Setpoint", served, oldestKubernetes)
	}
	return nil
}
