package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// ProcessLease detects other processes of one program that run without leader election. It is an
// election that stops none of them; one that sees another warns about it.
type ProcessLease struct {
	elector *Elector
	// leaders is the Lease of processes with leader election, which is only read.
	leaders *lock
	log     *slog.Logger
	warned  sync.Map
	// OnHeld is called when this process acquires or loses the Lease.
	OnHeld func()
}

// NewProcessLease returns the Lease of a process that handles the objects of some namespaces, or of all.
func NewProcessLease(e Election, namespaces []string, config *rest.Config, log *slog.Logger) (*ProcessLease, error) {
	return newProcessLease(Election{
		Enabled: true, Name: e.ProcessLeaseName(namespaces), Namespace: e.Namespace, Identity: e.Identity,
		LeaseDuration: 20 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 4 * time.Second,
	}, e.Name, config, log)
}

func newProcessLease(own Election, leaderLease string, config *rest.Config, log *slog.Logger) (*ProcessLease, error) {
	p := &ProcessLease{log: log, OnHeld: func() {}}
	quiet := slog.New(slog.DiscardHandler) // Without the right to use Leases, a process runs all the same.
	var err error
	if p.elector, err = New(own, config, quiet); err != nil {
		return nil, err
	}
	p.elector.lock.temporary = true
	own.Name = leaderLease
	if p.leaders, err = newLock(own, config, quiet); err != nil {
		return nil, err
	}
	p.elector.lock.renewedBy, p.leaders.renewedBy = p.warn, p.warn
	return p, nil
}

// ProcessLeaseName returns the name of the Lease that processes with the same objects share.
func (e Election) ProcessLeaseName(namespaces []string) string {
	name := e.Name + "-process"
	if len(namespaces) == 0 {
		return name
	}
	return name + "-" + hash(strings.Join(slices.Sorted(slices.Values(namespaces)), ","))
}

// Run renews the Lease until the context ends.
func (p *ProcessLease) Run(ctx context.Context) {
	if p == nil {
		return
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) { _, _, _ = p.leaders.Get(ctx) }, p.elector.RetryPeriod)
	go p.elector.WhileLeading(ctx, func(held context.Context) {
		p.OnHeld()
		<-held.Done()
		if ctx.Err() == nil {
			p.OnHeld()
		}
	})
	if err := p.elector.Run(ctx, func(context.Context) error { return nil }); err != nil {
		p.log.Error("processes of this program cannot be detected", "error", err.Error())
	}
}

// Held returns the Lease if this process holds it, for objects that are to be removed with
// the process; zero if it was not renewed for half of its duration.
func (p *ProcessLease) Held() types.NamespacedName {
	if p == nil || !p.elector.Leads() {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: p.elector.Namespace, Name: p.elector.Name}
}

// Usable reports whether other processes can see by the Lease that this one is alive. It is false
// for nil, and while the API server forbids it.
func (p *ProcessLease) Usable() bool { return p != nil && !apierrors.IsForbidden(p.elector.Problem()) }

// warn logs each other process once.
func (p *ProcessLease) warn(other, lease string) {
	if _, before := p.warned.LoadOrStore(other, true); before {
		return
	}
	p.log.Warn("another process of this program handles the same objects, so all work is done twice; stop one of them, or start them "+
		"with --leader-elect",
		"process", other, "lease", lease)
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// stoppedCheckInterval is the interval of reading Leases that a killed process may have left.
const stoppedCheckInterval = time.Second

// CheckStopped returns an error if a process renews the Lease of this name, in a namespace or in all of them. A process
// that stops empties its Lease. One that was killed does not: then CheckStopped watches for the duration of the Lease,
// since clocks differ. Waiting is called before it does.
func CheckStopped(ctx context.Context, config *rest.Config, lease types.NamespacedName,
	waiting func(holder, lease string, most time.Duration)) error {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client for leases: %w", err)
	}
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name).String()}
	all, err := client.Leases(lease.Namespace).List(ctx, byName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for i := range all.Items {
		held := &all.Items[i]
		if holderOf(held) == "" {
			continue
		}
		most := max(DefaultLeaseDuration, time.Duration(ptr.Deref(held.Spec.LeaseDurationSeconds, 0))*time.Second) + time.Second
		waiting(holderOf(held), held.Namespace+"/"+held.Name, most)
		if err := awaitExpiry(ctx, client.Leases(held.Namespace), held, most); err != nil {
			return err
		}
	}
	return nil
}

// awaitExpiry returns an error if a Lease is renewed.
func awaitExpiry(ctx context.Context, client coordination.LeaseInterface, held *coordinationv1.Lease, most time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, stoppedCheckInterval, most, true, func(ctx context.Context) (bool, error) {
		now, err := client.Get(ctx, held.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil || holderOf(now) == "":
			return err == nil, err
		case now.UID == held.UID && now.Spec.RenewTime.Equal(held.Spec.RenewTime):
			return false, nil
		}
		return false, fmt.Errorf("%s still runs: it renews the Lease %s/%s; stop it first", holderOf(now), now.Namespace, now.Name)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}
