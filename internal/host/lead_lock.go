package host

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

// lock is the Lease by which a leader is elected. To that of client-go it adds
// that a leader which finds another's name in the lease stops at once (it was
// suspended, maybe, and has come back), and that a lease which cannot be had is
// reported once.
type lock struct {
	resourcelock.LeaseLock
	log *slog.Logger
	// place is where its holder can be inspected, once that is known.
	place *atomic.Pointer[string]

	mu sync.Mutex
	// owned says that the lease was ours in this candidacy.
	owned  bool
	giveUp context.CancelFunc
	// problems are why it cannot be had at present, by what was tried.
	problems map[string]error
	// patience is how long the lease may be without a holder that renews it. alive is
	// when it last had one, as far as that is known, and record what was in it then.
	patience time.Duration
	alive    time.Time
	record   []byte
}

// newLock makes the lock of a Host; nil where nobody is elected.
func newLock(o Options) (*lock, error) {
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
	return &lock{log: o.Log, place: place, patience: 2 * e.LeaseDuration, problems: map[string]error{}, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace},
		Client:     placed{client, e.Identity, place},
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}}, nil
}

// is says whether this is the lease of that name.
func (l *lock) is(namespace, name string) bool {
	return l.LeaseMeta.Namespace == namespace && l.LeaseMeta.Name == name
}

// begin begins a candidacy; giveUp ends it.
func (l *lock) begin(giveUp context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned, l.giveUp = false, giveUp
	if l.alive.IsZero() {
		l.alive = time.Now()
	}
}

// won says whether the lease was had in this candidacy.
func (l *lock) won() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned
}

// Get reads the lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if apierrors.IsNotFound(err) {
		l.note(ctx, "get", nil)
		return record, raw, err
	}
	l.note(ctx, "get", err)
	l.look(record, raw, err)
	if err == nil && record.HolderIdentity != l.Identity() && l.won() {
		l.giveUp()
	}
	return record, raw, err
}

// Create makes the lease, ours.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.took(ctx, "create", l.LeaseLock.Create(ctx, record))
}

// Update takes or renews it.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.took(ctx, "update", l.LeaseLock.Update(ctx, record))
}

func (l *lock) took(ctx context.Context, verb string, err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return err // Another one was faster.
	}
	l.note(ctx, verb, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned = l.owned || err == nil
	if err == nil || unanswered(err) {
		l.alive = time.Now()
	}
	return err
}

// look notes whether a replica renews the lease.
func (l *lock) look(record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	renewed := err == nil && record.HolderIdentity != "" && !bytes.Equal(raw, l.record)
	if err == nil {
		l.record = raw
	}
	if renewed || unanswered(err) {
		l.alive = time.Now()
	}
}

// unanswered says that an API server is down, or has too much to do: it knows who holds
// the lease, and other replicas need not be different.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err))
}

// note remembers how an exchange ended, and logs a failure that is new.
func (l *lock) note(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && textOf(err) != textOf(l.problems[verb]) {
		l.log.Warn("the lease of the leader cannot be had; trying again", "lease", l.Describe(), "error", err.Error())
	}
	l.problems[verb] = err
}

// trouble is why this Host cannot lead: a refusal that a user has to resolve, or a lease
// that no replica acquires.
func (l *lock) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var latest error
	for _, verb := range []string{"get", "create", "update"} {
		err := l.problems[verb]
		if final(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("elect a leader by the lease %s: %w", l.Describe(), err)
		}
		latest = cmp.Or(err, latest)
	}
	if !l.alive.IsZero() && time.Since(l.alive) > l.patience {
		return fmt.Errorf("no replica has renewed the lease %s for %s: %w", l.Describe(), l.patience, cmp.Or(latest, errNoHolder))
	}
	return nil
}

var errNoHolder = errors.New("it has no holder")

// release hands the lease on, if it is ours, so that nobody waits for its end.
func (l *lock) release() {
	if !l.won() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	err := l.free(ctx)
	for apierrors.IsConflict(err) && ctx.Err() == nil {
		// A renewal that was broken off has landed meanwhile.
		err = l.free(ctx)
	}
	if err != nil {
		l.log.Warn("the lease is not released; another Setpoint takes over when it has run out", "lease", l.Describe(), "error", err.Error())
	}
}

// free takes our name out of the lease, if it is in it.
func (l *lock) free(ctx context.Context) error {
	record, _, err := l.LeaseLock.Get(ctx)
	if err != nil || record.HolderIdentity != l.Identity() {
		return err
	}
	now := metav1.Now()
	return l.LeaseLock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
	})
}

// releaseLimit is how long an end may take for the sake of whoever comes next.
const releaseLimit = 2 * time.Second
