// Package leader elects the leader among the replicas of Setpoint by a Lease, with client-go's
// elector, and runs work that only the leader may do.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
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
