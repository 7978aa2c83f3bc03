package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseLock is the Lease by which a leader is elected. To that of client-go it adds
// that a leader which finds another's name in the lease stops at once (it was
// suspended, maybe, and has come back), and that a lease which cannot be had is
// reported once.
type leaseLock struct {
	resourcelock.LeaseLock
	log *slog.Logger
	// address is where its holder can be inspected, once that is known.
	address *atomic.Pointer[string]

	mu sync.Mutex
	// held says that the lease was ours in this candidacy.
	held   bool
	cancel context.CancelFunc
	// problems are why it cannot be had at present, by what was tried.
	problems map[string]error
	// renewTimeout is how long the lease may be without a holder that renews it. alive is
	// when it last had one, as far as that is known, and record what was in it then.
	renewTimeout time.Duration
	renewedAt    time.Time
	lastRecord   []byte
}

// newLeaseLock makes the lock of a Host; nil where nobody is elected.
func newLeaseLock(o Options) (*leaseLock, error) {
	e := o.LeaderElection
	if !e.Enabled {
		return nil, nil //nolint:nilnil // No lock is what was asked for.
	}
	config := rest.CopyConfig(o.Config)
	config.QPS = -1
	config.UserAgent = o.userAgent()
	config.ContentType = runtime.ContentTypeJSON
	// One request that hangs must leave time for another.
	config.Timeout = e.RenewDeadline / 2
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the lease: %w", err)
	}
	place := &atomic.Pointer[string]{}
	return &leaseLock{log: o.Log, address: place, renewTimeout: 2 * e.LeaseDuration, problems: map[string]error{}, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace},
		Client:     annotatingLeases{client, e.Identity, place},
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}}, nil
}

// isLease says whether this is the lease of that name.
func (l *leaseLock) isLease(namespace, name string) bool {
	return l.LeaseMeta.Namespace == namespace && l.LeaseMeta.Name == name
}

// startCandidacy begins a candidacy; cancel ends it.
func (l *leaseLock) startCandidacy(cancel context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.cancel = false, cancel
	if l.renewedAt.IsZero() {
		l.renewedAt = time.Now()
	}
}

// hasHeld says whether the lease was had in this candidacy.
func (l *leaseLock) hasHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Get reads the lease.
func (l *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if apierrors.IsNotFound(err) {
		l.recordResult(ctx, "get", nil)
		return record, raw, err
	}
	l.recordResult(ctx, "get", err)
	l.observeRecord(record, raw, err)
	if err == nil && record.HolderIdentity != l.Identity() && l.hasHeld() {
		l.cancel()
	}
	return record, raw, err
}

// Create makes the lease, ours.
func (l *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, "create", l.LeaseLock.Create(ctx, record))
}

// Update takes or renews it.
func (l *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, "update", l.LeaseLock.Update(ctx, record))
}

func (l *leaseLock) wrote(ctx context.Context, verb string, err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return err // Another one was faster.
	}
	l.recordResult(ctx, verb, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = l.held || err == nil
	if err == nil || isUnavailable(err) {
		l.renewedAt = time.Now()
	}
	return err
}

// observeRecord notes whether a replica renews the lease.
func (l *leaseLock) observeRecord(record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	renewed := err == nil && record.HolderIdentity != "" && !bytes.Equal(raw, l.lastRecord)
	if err == nil {
		l.lastRecord = raw
	}
	if renewed || isUnavailable(err) {
		l.renewedAt = time.Now()
	}
}

// isUnavailable says that an API server is down, or has too much to do: it knows who holds
// the lease, and other replicas need not be different.
func isUnavailable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err))
}

// recordResult remembers how an exchange ended, and logs a failure that is new.
func (l *leaseLock) recordResult(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && errorText(err) != errorText(l.problems[verb]) {
		l.log.Warn("the lease of the leader cannot be had; trying again", "lease", l.Describe(), "error", err.Error())
	}
	l.problems[verb] = err
}

// problem is why this Host cannot lead: a refusal that a user has to resolve, or a lease
// that no replica acquires.
func (l *leaseLock) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var latest error
	for _, verb := range []string{"get", "create", "update"} {
		err := l.problems[verb]
		if isPermanent(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("elect a leader by the lease %s: %w", l.Describe(), err)
		}
		latest = cmp.Or(err, latest)
	}
	if !l.renewedAt.IsZero() && time.Since(l.renewedAt) > l.renewTimeout {
		return fmt.Errorf("no replica has renewed the lease %s for %s: %w", l.Describe(), l.renewTimeout, cmp.Or(latest, errNoHolder))
	}
	return nil
}

var errNoHolder = errors.New("it has no holder")

// release hands the lease on, if it is ours, so that nobody waits for its end.
func (l *leaseLock) release() {
	if !l.hasHeld() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	err := l.clearHolder(ctx)
	for apierrors.IsConflict(err) && ctx.Err() == nil {
		// A renewal that was broken off has landed meanwhile.
		err = l.clearHolder(ctx)
	}
	if err != nil {
		l.log.Warn("the lease is not released; another Setpoint takes over when it has run out", "lease", l.Describe(), "error", err.Error())
	}
}

// clearHolder takes our name out of the lease, if it is in it.
func (l *leaseLock) clearHolder(ctx context.Context) error {
	record, _, err := l.LeaseLock.Get(ctx)
	if err != nil || record.HolderIdentity != l.Identity() {
		return err
	}
	now := metav1.Now()
	return l.LeaseLock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
	})
}

// releaseTimeout is how long an end may take for the sake of whoever comes next.
const releaseTimeout = 2 * time.Second
