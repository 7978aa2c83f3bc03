package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// processLeaseInterval is the interval of renewals without leader election. A process is
// gone when its Lease was not renewed for processLeaseExpiry intervals.
const (
	processLeaseInterval = 5 * time.Second
	processLeaseExpiry   = 4
)

// duplicateAnnotation names, on the Lease of one process, another one of the same program.
const duplicateAnnotation = "setpoint.dev/beside"

// ProcessLease detects other processes of one program that run without leader election. The
// Lease stops none of them; each logs one warning about each other process.
type ProcessLease struct {
	leases   coordination.LeaseInterface
	log      *slog.Logger
	identity string
	// name is the Lease of this process, leaderLease that of processes with leader election.
	name, leaderLease, namespace string
	interval                     time.Duration
	now                          func() time.Time

	observed map[string]observedLease
	warned   map[string]bool

	// forbidden is set when Setpoint may not use Leases.
	forbidden atomic.Bool

	mu sync.Mutex
	// renewed is the time of the last renewal; zero while another process holds the Lease.
	renewed time.Time
	// OnHeld is called when this process acquires or loses the Lease; notified is what it
	// was last called for.
	OnHeld   func()
	notified types.NamespacedName
}

// observedLease is a Lease at its last observed renewal.
type observedLease struct {
	holder     string
	renewTime  time.Time
	observedAt time.Time
}

// NewProcessLease returns the Lease of a process that handles the objects of some namespaces, or
// of all.
func NewProcessLease(e Election, namespaces []string, config *rest.Config, log *slog.Logger) (*ProcessLease, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.ContentType = -1, runtime.ContentTypeJSON
	config.Timeout = processLeaseInterval
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the process lease: %w", err)
	}
	return &ProcessLease{
		leases: client.Leases(e.Namespace), log: log, identity: e.Identity,
		name: e.ProcessLeaseName(namespaces), leaderLease: e.Name, namespace: e.Namespace, interval: processLeaseInterval, now: time.Now,
		observed: map[string]observedLease{}, warned: map[string]bool{},
	}, nil
}

// ProcessLeaseName returns the name of the Lease that processes with the same objects share.
func (e Election) ProcessLeaseName(namespaces []string) string {
	name := e.Name + "-process"
	if len(namespaces) == 0 {
		return name
	}
	return name + "-" + hash(strings.Join(slices.Sorted(slices.Values(namespaces)), ","))
}

// Run renews the Lease until the context ends. It returns if Setpoint may not use Leases.
func (p *ProcessLease) Run(ctx context.Context) {
	if p == nil {
		return
	}
	err := wait.PollUntilContextCancel(ctx, p.interval, true, func(ctx context.Context) (bool, error) {
		err := p.sync(ctx)
		p.notifyHeld()
		if apierrors.IsForbidden(err) {
			p.log.Debug("other processes of this program cannot be detected", "error", err.Error())
			p.forbidden.Store(true)
			return true, nil
		}
		return false, nil
	})
	if err != nil {
		p.release()
	}
}

// sync renews the Lease, or observes its holder.
func (p *ProcessLease) sync(ctx context.Context) error {
	if leader, err := p.leases.Get(ctx, p.leaderLease, metav1.GetOptions{}); err == nil && p.isRenewed(leader) {
		p.warn(holderOf(leader), p.leaderLease)
	}
	lease, err := p.leases.Get(ctx, p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
		p.setHolder(lease)
		_, err = p.leases.Create(ctx, lease, metav1.CreateOptions{})
		p.recordRenewal(lease, err)
		return err
	}
	if err != nil {
		return err
	}
	switch other := lease.Annotations[duplicateAnnotation]; {
	case holderOf(lease) == p.identity:
		if other != "" {
			p.warn(other, p.name)
		}
		p.setHolder(lease)
	case p.isRenewed(lease):
		p.warn(holderOf(lease), p.name)
		if other == p.identity {
			return nil
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, duplicateAnnotation, p.identity)
	case p.isExpired(lease):
		p.setHolder(lease)
		delete(lease.Annotations, duplicateAnnotation)
	default:
		return nil
	}
	_, err = p.leases.Update(ctx, lease, metav1.UpdateOptions{})
	p.recordRenewal(lease, err)
	return err
}

// recordRenewal records the result of writing a Lease.
func (p *ProcessLease) recordRenewal(lease *coordinationv1.Lease, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case holderOf(lease) != p.identity:
		p.renewed = time.Time{}
	case err == nil:
		p.renewed = lease.Spec.RenewTime.Time
	}
}

// Held returns the Lease if this process holds it, for objects that are to be removed with
// the process; zero if it was not renewed for half of its duration.
func (p *ProcessLease) Held() types.NamespacedName {
	if p == nil {
		return types.NamespacedName{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.renewed.IsZero() || p.now().Sub(p.renewed) > processLeaseExpiry*p.interval/2 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: p.namespace, Name: p.name}
}

// Usable reports whether other processes can see by the Lease that this one is alive. It is false
// for nil, and once the API server has forbidden it.
func (p *ProcessLease) Usable() bool { return p != nil && !p.forbidden.Load() }

// notifyHeld calls OnHeld if Held has changed.
func (p *ProcessLease) notifyHeld() {
	now := p.Held()
	if now == p.notified {
		return
	}
	p.notified = now
	if p.OnHeld != nil {
		p.OnHeld()
	}
}

// setHolder makes this process the holder of a Lease.
func (p *ProcessLease) setHolder(lease *coordinationv1.Lease) {
	now, seconds := metav1.NewMicroTime(p.now()), max(1, int32(processLeaseExpiry*p.interval/time.Second))
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &p.identity, &now, &seconds
}

// isRenewed reports whether another process has renewed a Lease since it was last observed.
// The Lease of a killed process may look fresh.
func (p *ProcessLease) isRenewed(lease *coordinationv1.Lease) bool {
	now := observedLease{holder: holderOf(lease), observedAt: p.now()}
	if lease.Spec.RenewTime != nil {
		now.renewTime = lease.Spec.RenewTime.Time
	}
	before, known := p.observed[lease.Name]
	if known && before.holder == now.holder && before.renewTime.Equal(now.renewTime) {
		return false
	}
	p.observed[lease.Name] = now
	return known && before.holder == now.holder && now.holder != "" && now.holder != p.identity
}

// isExpired reports whether a Lease was not renewed in time.
func (p *ProcessLease) isExpired(lease *coordinationv1.Lease) bool {
	return holderOf(lease) == "" || p.now().Sub(p.observed[lease.Name].observedAt) > processLeaseExpiry*p.interval
}

func (p *ProcessLease) warn(other, lease string) {
	if p.warned[other] {
		return
	}
	p.warned[other] = true
	p.log.Warn("another process of this program handles the same objects, so all work is done twice; stop one of them, or start them "+
		"with --leader-elect",
		"process", other, "lease", lease)
}

// release deletes the Lease if this process holds it.
func (p *ProcessLease) release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	lease, err := p.leases.Get(ctx, p.name, metav1.GetOptions{})
	if err != nil || holderOf(lease) != p.identity {
		return
	}
	only := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
	if err := p.leases.Delete(ctx, p.name, metav1.DeleteOptions{Preconditions: &only}); err != nil {
		p.log.Debug("process lease not deleted", "lease", p.name, "error", err.Error())
	}
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }
