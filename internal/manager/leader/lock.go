package leader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	api "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// lock is client-go's LeaseLock with two additions: a leader that finds another holder
// in the Lease stops at once (it may have been suspended), and a failure is logged once.
type lock struct {
	resourcelock.LeaseLock
	log *slog.Logger
	// address is the holder's inspect address, once known.
	address *atomic.Pointer[string]

	mu sync.Mutex
	// held reports whether this candidate has acquired the Lease.
	held   bool
	cancel context.CancelFunc
	// problems are the latest errors by verb.
	problems map[string]error
	// renewTimeout is how long the Lease may stay unrenewed before this replica is unready;
	// renewedAt is when it last was renewed, lastRecord what it contained then.
	renewTimeout time.Duration
	renewedAt    time.Time
	lastRecord   []byte
	// lastHolder is the holder in lastRecord. renewedBy is called for another one that has renewed the Lease since;
	// the Lease of a killed process may look fresh.
	lastHolder string
	renewedBy  func(holder, lease string)
	// temporary means that the Lease is deleted when it is released.
	temporary bool
}

// newLock returns the lock of an election.
func newLock(e Election, config *rest.Config, log *slog.Logger) (*lock, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeJSON
	// A hanging request must leave time for another one.
	config.Timeout = e.RenewDeadline / 2
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the leader lease: %w", err)
	}
	address := &atomic.Pointer[string]{}
	return &lock{log: log, address: address, renewTimeout: 2 * e.LeaseDuration, problems: map[string]error{},
		renewedBy: func(string, string) {},
		LeaseLock: resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace},
			Client:     annotatingLeases{client, e.Identity, address},
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		}}, nil
}

// startCandidacy resets the state; cancel ends the candidacy.
func (l *lock) startCandidacy(cancel context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.cancel = false, cancel
	if l.renewedAt.IsZero() {
		l.renewedAt = time.Now()
	}
}

// hasHeld reports whether this candidate has acquired the Lease.
func (l *lock) hasHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Get reads the lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
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

// Create creates the Lease as its holder.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, "create", l.LeaseLock.Create(ctx, record))
}

// Update acquires or renews the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(ctx, "update", l.LeaseLock.Update(ctx, record))
}

func (l *lock) wrote(ctx context.Context, verb string, err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return err // Another candidate was faster.
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

// observeRecord records whether a replica renews the Lease.
func (l *lock) observeRecord(record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	renewed := err == nil && record.HolderIdentity != "" && !bytes.Equal(raw, l.lastRecord)
	if renewed && record.HolderIdentity == l.lastHolder && l.lastHolder != l.Identity() {
		l.renewedBy(l.lastHolder, l.LeaseMeta.Name)
	}
	if err == nil {
		l.lastRecord, l.lastHolder = raw, record.HolderIdentity
	}
	if renewed || isUnavailable(err) {
		l.renewedAt = time.Now()
	}
}

// isUnavailable reports whether the API server is down or overloaded. Then nothing is known
// about the Lease, and other replicas fare no better.
func isUnavailable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err))
}

// recordResult stores the error of a request and logs it if it is new.
func (l *lock) recordResult(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && failure.Text(err) != failure.Text(l.problems[verb]) {
		l.log.Warn("failed to acquire the leader lease; retrying", "lease", l.Describe(), "error", err.Error())
	}
	l.problems[verb] = err
}

// problem returns why this replica cannot lead: an error that a user must resolve, or a Lease that no replica renews.
func (l *lock) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var latest error
	for _, verb := range []string{"get", "create", "update"} {
		err := l.problems[verb]
		if request.IsPermanent(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("acquire the leader lease %s: %w", l.Describe(), err)
		}
		latest = cmp.Or(err, latest)
	}
	if !l.renewedAt.IsZero() && time.Since(l.renewedAt) > l.renewTimeout {
		return fmt.Errorf("no replica has renewed the leader lease %s for %s: %w",
			l.Describe(), l.renewTimeout, cmp.Or(latest, errNoHolder))
	}
	return nil
}

var errNoHolder = errors.New("it has no holder")

// release releases the Lease if this replica holds it, so that another one can lead at once.
func (l *lock) release() {
	if !l.hasHeld() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	// A canceled renewal may be stored meanwhile.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return l.clearHolder(ctx) })
	if err != nil {
		l.log.Warn("leader lease not released; another replica leads when it expires", "lease", l.Describe(), "error", err.Error())
	}
}

// clearHolder removes this replica as the holder of the Lease.
func (l *lock) clearHolder(ctx context.Context) error {
	leases := l.Client.Leases(l.LeaseMeta.Namespace)
	lease, err := leases.Get(ctx, l.LeaseMeta.Name, metav1.GetOptions{})
	if err != nil || holderOf(lease) != l.Identity() {
		return err
	}
	if l.temporary {
		return leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID,
			ResourceVersion: &lease.ResourceVersion}})
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// releaseTimeout limits the release of a Lease at shutdown.
const releaseTimeout = 2 * time.Second

// annotatingLeases adds the holder's inspect address to its Lease, without another request or permission.
type annotatingLeases struct {
	coordination.LeasesGetter
	identity string
	// address is the value of locate.LeaseAnnotation; nil for none.
	address *atomic.Pointer[string]
}

// Leases returns the client of a namespace.
func (p annotatingLeases) Leases(namespace string) coordination.LeaseInterface {
	return annotatingLeaseClient{p.LeasesGetter.Leases(namespace), p}
}

type annotatingLeaseClient struct {
	coordination.LeaseInterface
	annotatingLeases
}

// Create creates a lease.
func (p annotatingLeaseClient) Create(ctx context.Context, lease *api.Lease, o metav1.CreateOptions) (*api.Lease, error) {
	return p.LeaseInterface.Create(ctx, p.annotate(lease), o)
}

// Update updates one.
func (p annotatingLeaseClient) Update(ctx context.Context, lease *api.Lease, o metav1.UpdateOptions) (*api.Lease, error) {
	return p.LeaseInterface.Update(ctx, p.annotate(lease), o)
}

// annotate returns the Lease with the address of this process if it is the holder, else without an address.
func (p annotatingLeases) annotate(lease *api.Lease) *api.Lease {
	annotated := *lease
	annotated.Annotations = maps.Clone(lease.Annotations)
	delete(annotated.Annotations, locate.LeaseAnnotation)
	address := p.address.Load()
	if address != nil && holderOf(lease) == p.identity {
		metav1.SetMetaDataAnnotation(&annotated.ObjectMeta, locate.LeaseAnnotation, *address)
	}
	return &annotated
}
