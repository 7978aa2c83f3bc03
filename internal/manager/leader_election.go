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

// What a LeaderElection has where it says nothing.
const (
	DefaultLeaseDuration = 10 * time.Second
	DefaultRenewDeadline = 7 * time.Second
	DefaultRetryPeriod   = time.Second
)

// LeaderElection says which of several Setpoints works. The others stand by:
// they keep their caches filled, and ask and write nothing.
//
// The durations bound what a change of leader takes. After a clean stop the
// next one takes over within 2.2 RetryPeriods, after a crash within a
// LeaseDuration and 4.4 RetryPeriods: by default 2.2 and 14.4 seconds.
type LeaderElection struct {
	// Enabled has them elect one; else each works.
	Enabled bool
	// Name and Namespace of the Lease by which they do. If empty, the Namespace
	// is that of the Options, and the Name "setpoint", with a digest of the
	// Selector if there is one: those that run others of the controllers must
	// not stand by for this one.
	Name, Namespace string
	// Identity tells this one from the others; the name of the machine and a
	// random text if empty.
	Identity string
	// LeaseDuration is how long the others wait for a leader that is silent; the
	// default if zero. Whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader goes on that cannot renew its lease; the
	// default if zero. What is then left of the LeaseDuration is its time to stop.
	RenewDeadline time.Duration
	// RetryPeriod is how often leaders renew and the others look; the default if
	// zero.
	RetryPeriod time.Duration
}

func (e LeaderElection) withDefaults(o Options) LeaderElection {
	e.Name = cmp.Or(e.Name, leaseName(o.Selector))
	e.Namespace = cmp.Or(e.Namespace, o.Namespace)
	e.LeaseDuration = cmp.Or(e.LeaseDuration, DefaultLeaseDuration)
	e.RenewDeadline = cmp.Or(e.RenewDeadline, DefaultRenewDeadline)
	e.RetryPeriod = cmp.Or(e.RetryPeriod, DefaultRetryPeriod)
	if e.Identity == "" {
		machine, _ := os.Hostname() // Without it, the random part is enough.
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
	_, _ = sum.Write([]byte(selector)) // A hash takes everything.
	return fmt.Sprintf("setpoint-%08x", sum.Sum32())
}

func (e LeaderElection) check() error {
	switch {
	case !e.Enabled:
		return nil
	case e.LeaseDuration < time.Second || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("the lease duration is %s; it must be whole seconds", e.LeaseDuration)
	case e.grace() <= 0:
		return fmt.Errorf("the lease duration, %s, must be longer than the renew deadline and the retry period, %s and %s: a leader needs time to stop",
			e.LeaseDuration, e.RenewDeadline, e.RetryPeriod)
	case e.RetryPeriod <= 0 || float64(e.RenewDeadline) <= leaderelection.JitterFactor*float64(e.RetryPeriod):
		return fmt.Errorf("the renew deadline, %s, must be longer than %.1f retry periods of %s",
			e.RenewDeadline, leaderelection.JitterFactor, e.RetryPeriod)
	}
	return nil
}

// runControllers runs the controllers: all of the time they watch, and while this Host
// leads they act. The lease is held until nothing acts any more.
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
			// A hook that does not heed its context must not keep us alive.
			return err
		}
	}
}

// shutdownDeadline ends when what is under way had its time to end, after ctx has.
func (m *Manager) shutdownDeadline(ctx context.Context) context.Context {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(m.options.ShutdownTimeout, end) })
	return late
}

// logUnfinished logs what does not end although it should.
func (m *Manager) logUnfinished() {
	for _, what := range m.options.UnfinishedTasks() {
		m.log.Error("does not end", "what", what)
	}
}

// shutdownTimeoutError does not wait any longer for what does not end. What it still wants written
// is not: its context has ended.
func (m *Manager) shutdownTimeoutError() error {
	m.logUnfinished()
	return fmt.Errorf("what was under way did not end within %s; it has to heed its context", m.options.ShutdownTimeout)
}

// grace is the time a leader has to stop once it has given up renewing its
// lease, the next try having begun a RetryPeriod after the last success.
func (e LeaderElection) grace() time.Duration {
	return e.LeaseDuration - e.RenewDeadline - e.RetryPeriod
}

// watchAndRun watches, and acts in every term. It waits for the kinds of controllers
// first: whoever leads installs them.
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

// runElection leads for as long as it may, again and again, until ctx ends. What
// ends a term is no reason to exit: caches that are filled are worth keeping,
// above all while an API server that could not be reached has much to do.
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

// runCandidate is one candidacy: it waits for the lease, leads, and returns when the
// lease is lost or ctx ends, and nothing acts any more.
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
		return fmt.Errorf("elect a leader: %w", err)
	}
	// The lock tells what goes wrong, once and not every second.
	elector.Run(klog.NewContext(ctx, logr.Discard()))
	if !m.leaseLock.hasHeld() {
		return nil
	}
	return <-ended
}

// lead is one term: it installs what is missing and has the controllers act until
// ctx ends.
func (m *Manager) lead(ctx context.Context) error {
	err := m.installCRDs(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The term is over before it began.
	}
	if err != nil {
		return err
	}
	m.leadership.start()
	<-ctx.Done()
	if m.options.LeaderElection.Enabled {
		m.log.Info("not leading any more", "lease", m.leaseLock.Describe())
	}
	select {
	case <-m.leadership.stop():
		return nil
	case <-time.After(m.options.LeaderElection.grace()):
		m.logUnfinished()
		return errors.New("the lease is lost, and what was under way does not end; ending, so that no two Setpoints act")
	}
}

// onNewLeader is told who leads now.
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
