package leader

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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
