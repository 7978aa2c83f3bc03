package manager

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// processLeaseInterval is how often a process without a leader election renews its Lease, and
// looks who else there is. A process whose Lease is older than processLeaseExpiry of these is
// gone.
const (
	processLeaseInterval = 5 * time.Second
	processLeaseExpiry   = 4
)

// duplicateAnnotation names, on the Lease of one process, another one that runs beside it.
const duplicateAnnotation = "setpoint.dev/beside"

// processLease is how processes of one program that elect no leader notice each other: by a
// Lease, which keeps none of them from working. It says once of each other process that
// everything is done twice.
type processLease struct {
	leases   coordination.LeaseInterface
	log      *slog.Logger
	identity string
	// name is the Lease of processes without leader election, elected that of the others.
	name, leaderLease, namespace string
	interval                     time.Duration
	now                          func() time.Time

	observed map[string]observedLease
	warned   map[string]bool

	mu sync.Mutex
	// renewed is when this process last renewed the Lease; zero while it does not hold it.
	renewed time.Time
	// onHeld is called when the process begins or ceases to hold the Lease, told what was
	// held the last time.
	onHeld   func()
	notified admission.ObjectName
}

// observedLease is a Lease as it was when it was last renewed.
type observedLease struct {
	holder     string
	renewTime  time.Time
	observedAt time.Time
}

// newProcessLease makes the presence of a Host; nil where a leader is elected, or the Host has
// nothing by which it could be told.
func newProcessLease(o Options) (*processLease, error) {
	if o.LeaderElection.Enabled || !o.ProcessLease {
		return nil, nil //nolint:nilnil // No other process is to notice it.
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.UserAgent, config.ContentType = -1, o.userAgent(), "application/json"
	config.Timeout = processLeaseInterval
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the lease of the process: %w", err)
	}
	return &processLease{
		leases: client.Leases(o.LeaderElection.Namespace), log: o.Log, identity: o.LeaderElection.Identity,
		name: processLeaseName(o), leaderLease: o.LeaderElection.Name, namespace: o.LeaderElection.Namespace, interval: processLeaseInterval, now: time.Now,
		observed: map[string]observedLease{}, warned: map[string]bool{},
	}, nil
}

// processLeaseName is the name of the Lease, which those share that handle the same objects.
func processLeaseName(o Options) string {
	name := o.LeaderElection.Name + "-process"
	if len(o.WatchNamespaces) == 0 {
		return name
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(strings.Join(slices.Sorted(slices.Values(o.WatchNamespaces)), ","))) // A hash takes everything.
	return fmt.Sprintf("%s-%08x", name, sum.Sum32())
}

// run works until the context ends. Who may not use Leases goes without.
func (p *processLease) run(ctx context.Context) {
	if p == nil {
		return
	}
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		err := p.sync(ctx)
		p.notifyHeld()
		if apierrors.IsForbidden(err) {
			p.log.Debug("other processes of this program are not noticed", "error", err.Error())
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			p.release()
			return
		}
	}
}

// sync renews the Lease, or finds out who else holds it.
func (p *processLease) sync(ctx context.Context) error {
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

// recordRenewal notes what has become of writing a Lease.
func (p *processLease) recordRenewal(lease *coordinationv1.Lease, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case holderOf(lease) != p.identity:
		p.renewed = time.Time{}
	case err == nil:
		p.renewed = lease.Spec.RenewTime.Time
	}
}

// held is the Lease that this process renews, for what is to end with the process; the
// zero ObjectName if another one holds it, or it was not renewed for half of its time.
func (p *processLease) held() admission.ObjectName {
	if p == nil {
		return admission.ObjectName{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.renewed.IsZero() || p.now().Sub(p.renewed) > processLeaseExpiry*p.interval/2 {
		return admission.ObjectName{}
	}
	return admission.ObjectName{Namespace: p.namespace, Name: p.name}
}

// notifyHeld calls onHeld if the Lease is held and was not, or the other way round.
func (p *processLease) notifyHeld() {
	now := p.held()
	if now == p.notified {
		return
	}
	p.notified = now
	if p.onHeld != nil {
		p.onHeld()
	}
}

// setHolder makes a Lease ours, from now on.
func (p *processLease) setHolder(lease *coordinationv1.Lease) {
	now, seconds := metav1.NewMicroTime(p.now()), max(1, int32(processLeaseExpiry*p.interval/time.Second))
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &p.identity, &now, &seconds
}

// isRenewed says that a process has renewed a Lease since it was last looked at: one that was
// killed left a Lease that looks fresh.
func (p *processLease) isRenewed(lease *coordinationv1.Lease) bool {
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

// isExpired says that a Lease was not renewed for long.
func (p *processLease) isExpired(lease *coordinationv1.Lease) bool {
	return holderOf(lease) == "" || p.now().Sub(p.observed[lease.Name].observedAt) > processLeaseExpiry*p.interval
}

func (p *processLease) warn(other, lease string) {
	if p.warned[other] {
		return
	}
	p.warned[other] = true
	p.log.Warn("another process of this program handles the same objects: everything is done twice; stop one of them, or start them with --leader-elect",
		"process", other, "lease", lease)
}

// release deletes the Lease, if it is ours.
func (p *processLease) release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	lease, err := p.leases.Get(ctx, p.name, metav1.GetOptions{})
	if err != nil || holderOf(lease) != p.identity {
		return
	}
	only := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
	if err := p.leases.Delete(ctx, p.name, metav1.DeleteOptions{Preconditions: &only}); err != nil {
		p.log.Debug("the lease of the process is left", "lease", p.name, "error", err.Error())
	}
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
