package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// Defaults of LeaderElection.
const (
	DefaultLeaseDuration = 10 * time.Second
	DefaultRenewDeadline = 7 * time.Second
	DefaultRetryPeriod   = time.Second
)

// LeaderElection configures which of several replicas leads. The others stand by: they
// keep their caches synced, and call and write nothing.
//
// The durations bound a failover. After a clean stop the next leader takes over within
// 2.2 RetryPeriods, after a crash within a LeaseDuration and 4.4 RetryPeriods: by default
// 2.2 and 14.4 seconds.
type LeaderElection struct {
	// Enabled elects one leader; otherwise each replica leads.
	Enabled bool
	// Name and Namespace of the Lease. The default Namespace is that of the Options, the
	// default Name is "setpoint", with a hash of the Selector if there is one, since
	// replicas with different selectors run different controllers.
	Name, Namespace string
	// Identity is the holder identity; by default the host name and a random suffix.
	Identity string
	// LeaseDuration is how long a candidate waits for a leader that does not renew. It is
	// in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader keeps trying to renew. The rest of LeaseDuration
	// is its time to stop.
	RenewDeadline time.Duration
	// RetryPeriod is the interval of renewals and of candidates' checks.
	RetryPeriod time.Duration
}

func (e LeaderElection) withDefaults(o Options) LeaderElection {
	e.Name = cmp.Or(e.Name, leaseName(o.Selector))
	e.Namespace = cmp.Or(e.Namespace, o.Namespace)
	e.LeaseDuration = cmp.Or(e.LeaseDuration, DefaultLeaseDuration)
	e.RenewDeadline = cmp.Or(e.RenewDeadline, DefaultRenewDeadline)
	e.RetryPeriod = cmp.Or(e.RetryPeriod, DefaultRetryPeriod)
	if e.Identity == "" {
		machine, _ := os.Hostname() // The random suffix is enough.
		e.Identity = machine + "_" + string(uuid.NewUUID())
	}
	return e
}

func leaseName(selector string) string {
	if parsed, err := labels.Parse(selector); err == nil {
		selector = parsed.String()
	}
	if selector == "" {
		return "setpoint"
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(selector)) // A hash never fails.
	return fmt.Sprintf("setpoint-%08x", sum.Sum32())
}

func (e LeaderElection) check() error {
	switch {
	case !e.Enabled:
		return nil
	case e.LeaseDuration < time.Second || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("lease duration %s must be whole seconds", e.LeaseDuration)
	case e.grace() <= 0:
		return fmt.Errorf("lease duration %s must be longer than the renew deadline %s and the retry period %s together: a leader needs time to stop",
			e.LeaseDuration, e.RenewDeadline, e.RetryPeriod)
	case e.RetryPeriod <= 0 || float64(e.RenewDeadline) <= leaderelection.JitterFactor*float64(e.RetryPeriod):
		return fmt.Errorf("renew deadline %s must be longer than %.1f retry periods of %s",
			e.RenewDeadline, leaderelection.JitterFactor, e.RetryPeriod)
	}
	return nil
}

// runControllers runs the controllers and the leader election. The Lease is held until all
// work has stopped.
func (m *Manager) runControllers(ctx context.Context) error {
	defer m.store.Close()
	defer m.events.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leaderCtx, stopLeading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeading()
	worked, led := make(chan error, 1), make(chan error, 1)
	go func() { worked <- m.watchAndRun(ctx) }()
	go func() { led <- m.runElection(leaderCtx) }()
	late := m.shutdownDeadline(ctx)
	select {
	case <-late.Done():
		return m.shutdownTimeoutError()
	case err := <-worked:
		stopLeading()
		return errors.Join(err, <-led)
	case err := <-led:
		stop()
		select {
		case also := <-worked:
			return errors.Join(err, also)
		case <-time.After(m.options.LeaderElection.grace()):
			// A hook that ignores its context must not delay the exit.
			return err
		}
	}
}

// shutdownDeadline returns a context that ends ShutdownTimeout after ctx.
func (m *Manager) shutdownDeadline(ctx context.Context) context.Context {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(m.options.ShutdownTimeout, end) })
	return late
}

// logUnfinished logs the tasks that did not stop.
func (m *Manager) logUnfinished() {
	for _, what := range m.options.UnfinishedTasks() {
		m.log.Error("did not stop within the shutdown timeout", "what", what)
	}
}

// shutdownTimeoutError logs the tasks that did not stop and returns the error of Run.
func (m *Manager) shutdownTimeoutError() error {
	m.logUnfinished()
	return fmt.Errorf("work did not stop within the shutdown timeout of %s; it must return when its context ends", m.options.ShutdownTimeout)
}

// grace is the time left to stop after RenewDeadline, before another replica may lead. The
// last attempt to renew began a RetryPeriod after the last success.
func (e LeaderElection) grace() time.Duration {
	return e.LeaseDuration - e.RenewDeadline - e.RetryPeriod
}

// watchAndRun runs the controllers once the leader is known and the CRDs are installed.
func (m *Manager) watchAndRun(ctx context.Context) error {
	select {
	case <-m.leadership.leaderKnown:
	case <-ctx.Done():
		return nil
	}
	if err := m.awaitCRDsAsStandby(ctx); err != nil {
		return err
	}
	defer m.watchCRDs(ctx)()
	return m.controllers.run(ctx)
}

// runElection leads whenever it acquires the Lease, until ctx ends. A lost Lease does not end
// the process, since its caches would be lost, too.
func (m *Manager) runElection(ctx context.Context) error {
	if !m.options.LeaderElection.Enabled {
		return m.lead(ctx)
	}
	defer m.leaseLock.release()
	for ctx.Err() == nil {
		if err := m.runCandidate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runCandidate waits for the Lease, leads, and returns when the Lease is lost or ctx ends
// and all work has stopped.
func (m *Manager) runCandidate(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.leaseLock.startCandidacy(cancel)
	ended := make(chan error, 1)
	e := m.options.LeaderElection
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: m.leaseLock, Name: m.leaseLock.Describe(),
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer cancel()
				ended <- m.lead(ctx)
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      m.onNewLeader,
		},
	})
	if err != nil {
		return fmt.Errorf("create a leader elector: %w", err)
	}
	// The lock logs failures once instead of every second.
	elector.Run(klog.NewContext(ctx, logr.Discard()))
	if !m.leaseLock.hasHeld() {
		return nil
	}
	return <-ended
}

// lead installs the CRDs and lets controllers work until ctx ends.
func (m *Manager) lead(ctx context.Context) error {
	err := m.installCRDs(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The lease was lost meanwhile.
	}
	if err != nil {
		return err
	}
	m.leadership.start()
	<-ctx.Done()
	if m.options.LeaderElection.Enabled {
		m.log.Info("stopped leading", "lease", m.leaseLock.Describe())
	}
	select {
	case <-m.leadership.stop():
		return nil
	case <-time.After(m.options.LeaderElection.grace()):
		m.logUnfinished()
		return errors.New("the leader lease is lost and work did not stop in time; exiting, so that no two replicas write")
	}
}

// onNewLeader handles a change of the leader.
func (m *Manager) onNewLeader(leader string) {
	e := m.options.LeaderElection
	m.leadership.setLeader(leader)
	switch leader {
	case "":
	case e.Identity:
		m.log.Info("leading", "lease", m.leaseLock.Describe(), "identity", leader)
	default:
		m.log.Info("standing by", "lease", m.leaseLock.Describe(), "leader", leader)
		m.leadership.setLeaderKnown()
	}
}

// isLeaderLease reports whether a Lease is that of this leader election.
func (m *Manager) isLeaderLease(namespace, name string) bool {
	return m.leaseLock != nil && m.leaseLock.isLease(namespace, name)
}
