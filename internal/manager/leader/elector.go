// Package leader elects the leader among the replicas of Setpoint by a Lease, with client-go's
// elector, and runs work that only the leader may do.
package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// ErrStillWorking means that the Lease is lost and work has not stopped in time.
var ErrStillWorking = errors.New("the leader lease is lost and work did not stop in time; exiting, so that no two replicas write")

// Elector takes part in the leader election.
type Elector struct {
	*Leadership
	Election

	// lock is nil without leader election.
	lock *lock
	log  *slog.Logger
}

// New returns an elector with a client of its own.
func New(e Election, config *rest.Config, log *slog.Logger) (*Elector, error) {
	elector := &Elector{Leadership: NewLeadership(), Election: e, log: log}
	if !e.Enabled {
		return elector, nil
	}
	var err error
	elector.lock, err = newLock(e, config, log)
	return elector, err
}

// Problem returns why this replica cannot lead; nil if it leads, or may lead later.
func (e *Elector) Problem() error {
	if e.lock == nil || e.Leads() {
		return nil
	}
	return e.lock.problem()
}

// IsLease reports whether a Lease is that of this election.
func (e *Elector) IsLease(namespace, name string) bool {
	return e.lock != nil && e.lock.LeaseMeta.Namespace == namespace && e.lock.LeaseMeta.Name == name
}

// SetAddress sets the inspect address to publish in the Lease.
func (e *Elector) SetAddress(address string) {
	if e.lock != nil {
		e.lock.address.Store(&address)
	}
}

// Run leads whenever it acquires the Lease, until ctx ends. Before it leads it calls prepare. A lost Lease does not end
// the process, since its caches would be lost, too.
func (e *Elector) Run(ctx context.Context, prepare func(context.Context) error) error {
	if e.lock == nil {
		return e.lead(ctx, prepare)
	}
	defer e.lock.release()
	for ctx.Err() == nil {
		if err := e.runCandidate(ctx, prepare); err != nil {
			return err
		}
	}
	return nil
}

// runCandidate waits for the Lease, leads, and returns when the Lease is lost or ctx ends and all work has stopped.
func (e *Elector) runCandidate(ctx context.Context, prepare func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.lock.startCandidacy(cancel)
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: e.lock.Describe(),
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer cancel()
				ended <- e.lead(ctx, prepare)
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      e.onNewLeader,
		},
	})
	if err != nil {
		return fmt.Errorf("create a leader elector: %w", err)
	}
	// The lock logs failures once instead of every second.
	elector.Run(klog.NewContext(ctx, logr.Discard()))
	if !e.lock.hasHeld() {
		return nil
	}
	return <-ended
}

// lead calls prepare and lets work run until ctx ends.
func (e *Elector) lead(ctx context.Context, prepare func(context.Context) error) error {
	err := prepare(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The lease was lost meanwhile.
	}
	if err != nil {
		return err
	}
	e.start()
	<-ctx.Done()
	if e.lock != nil {
		e.log.Info("stopped leading", "lease", e.lock.Describe())
	}
	select {
	case <-e.stop():
		return nil
	case <-time.After(e.Grace()):
		return ErrStillWorking
	}
}

// onNewLeader handles a change of the leader.
func (e *Elector) onNewLeader(leader string) {
	e.mu.Lock()
	e.leaderName = leader
	e.mu.Unlock()
	switch leader {
	case "":
	case e.Identity:
		e.log.Info("leading", "lease", e.lock.Describe(), "identity", leader)
	default:
		e.log.Info("standing by", "lease", e.lock.Describe(), "leader", leader)
		e.setKnown()
	}
}

// Defaults of Election.
const (
	DefaultLeaseDuration = 10 * time.Second
	DefaultRenewDeadline = 7 * time.Second
	DefaultRetryPeriod   = time.Second
)

// Election configures which of several replicas leads. The others stand by: they keep their caches synced, and call and
// write nothing.
//
// The durations bound a failover. After a clean stop the next leader takes over within 2.2 RetryPeriods, after a crash
// within a LeaseDuration and 4.4 RetryPeriods: by default 2.2 and 14.4 seconds.
type Election struct {
	// Enabled elects one leader; otherwise each replica leads.
	Enabled bool
	// Name and Namespace of the Lease. The default Namespace is that of Setpoint, the default Name is "setpoint", with
	// a hash of the Selector if there is one, since replicas with different selectors run different controllers.
	Name, Namespace string
	// Identity is the holder identity; by default the host name and a random suffix.
	Identity string
	// LeaseDuration is how long a candidate waits for a leader that does not renew. It is in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader keeps trying to renew. The rest of LeaseDuration is its time to stop.
	RenewDeadline time.Duration
	// RetryPeriod is the interval of renewals and of candidates' checks.
	RetryPeriod time.Duration
}

// WithDefaults sets the defaults for replicas in a namespace with a selector of controllers.
func (e Election) WithDefaults(namespace, selector string) Election {
	e.Name = cmp.Or(e.Name, leaseName(selector))
	e.Namespace = cmp.Or(e.Namespace, namespace)
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
	return "setpoint-" + hash(selector)
}

func hash(text string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text)) // A hash never fails.
	return fmt.Sprintf("%08x", sum.Sum32())
}

// Check validates the durations.
func (e Election) Check() error {
	switch {
	case !e.Enabled:
		return nil
	case e.LeaseDuration < time.Second || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("lease duration %s must be whole seconds", e.LeaseDuration)
	case e.Grace() <= 0:
		return fmt.Errorf("lease duration %s must be longer than the renew deadline %s and the retry period %s together: a leader needs "+
			"time to stop",
			e.LeaseDuration, e.RenewDeadline, e.RetryPeriod)
	case e.RetryPeriod <= 0 || float64(e.RenewDeadline) <= leaderelection.JitterFactor*float64(e.RetryPeriod):
		return fmt.Errorf("renew deadline %s must be longer than %.1f retry periods of %s",
			e.RenewDeadline, leaderelection.JitterFactor, e.RetryPeriod)
	}
	return nil
}

// Grace is the time left to stop after RenewDeadline, before another replica may lead. The
// last attempt to renew began a RetryPeriod after the last success.
func (e Election) Grace() time.Duration {
	return e.LeaseDuration - e.RenewDeadline - e.RetryPeriod
}
