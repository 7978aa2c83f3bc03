package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// gate is where the API server asks before objects are stored. It opens with the
// first controller that wants to be asked, and stays open: in every replica, leading
// or not, so that the API server finds somebody whichever it comes to.
type gate struct {
	host *Host
	// first is closed when there is something to be asked.
	first func()
	open  chan struct{}

	mu sync.Mutex
	// programs are what is asked, by controller. One whose controller is refused
	// stays as it was accepted last: an edit that is wrong must not let pass what was
	// forbidden.
	programs map[queue.Key]*admission.Program
	// withdrawn are those of controllers that are gone, or suspended. For as long as
	// the API server goes on asking, all is allowed.
	withdrawn map[queue.Key]*admission.Program
	// refused are the controllers of which nothing was accepted yet. What the API
	// server knows of them from a former run stays.
	refused map[queue.Key]bool
	// server and registrar are nil before the gate is open.
	server    *admission.Server
	registrar *admission.Registrar
	// owner is who the registrations of programs go with that have no owner; nil for
	// nobody.
	owner *metav1.OwnerReference
	// obstacle is why the gate cannot be opened.
	obstacle error
	// failures are the reviews of controllers that had no verdict the last time.
	failures map[string]*failures
}

func newGate(h *Host) *gate {
	g := &gate{
		host: h, open: make(chan struct{}),
		programs: map[queue.Key]*admission.Program{}, withdrawn: map[queue.Key]*admission.Program{}, refused: map[queue.Key]bool{}, failures: map[string]*failures{},
	}
	g.first = sync.OnceFunc(func() { close(g.open) })
	return g
}

// put has a controller's program asked from now on; nil for one that wants to be
// asked nothing.
func (g *gate) put(key queue.Key, program *admission.Program) {
	g.mu.Lock()
	defer g.mu.Unlock()
	program = g.host.inFlight.admission(program)
	delete(g.refused, key)
	former := g.programs[key]
	switch {
	case program != nil:
		g.programs[key] = program
		delete(g.withdrawn, key)
		g.first()
	case former != nil:
		g.withdrawn[key] = former.Withdrawn()
		delete(g.programs, key)
	}
	g.announce()
}

// refuse notes that a controller cannot be accepted as it is, or now.
func (g *gate) refuse(key queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.programs[key] == nil {
		g.refused[key] = true
		g.announce()
	}
}

// drop forgets a controller that is gone.
func (g *gate) drop(key queue.Key) {
	g.put(key, nil)
}

// announce tells the server, and the API server, what is asked now. It is called
// with the lock held.
func (g *gate) announce() {
	if g.registrar == nil {
		return // The gate is not open.
	}
	all := g.accepted()
	g.server.Set(slices.AppendSeq(slices.Clone(all), maps.Values(g.withdrawn)))
	if spared, known := g.spared(); known {
		g.registrar.Set(all, spared...)
	}
}

// accepted are the programs of the controllers that are accepted.
func (g *gate) accepted() []*admission.Program {
	var all []*admission.Program
	for _, program := range g.programs {
		all = append(all, g.owned(program))
	}
	return all
}

// spared are the controllers without a program whose registered configurations stay; false
// while it is not known which controllers there are.
func (g *gate) spared() ([]string, bool) {
	if !g.host.fleet.begun.Load() || !g.host.fleet.knowsReviews() {
		return nil, false
	}
	var refused []string
	for key := range g.refused {
		refused = append(refused, key.String())
	}
	return refused, true
}

// settled says that all controllers have been looked at that were there at the
// start: from now on it is known what nobody wants any more.
func (g *gate) settled() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.announce()
}

// ownerChanged registers again: the configurations name the Lease that this process holds.
func (g *gate) ownerChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.announce()
}

// unused says that no controller that was there at the start has reviews, as far as all
// were accepted.
func (g *gate) unused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		return false
	default:
		return g.host.fleet.begun.Load() && len(g.refused) == 0
	}
}

// run serves the API server until ctx ends, once there is something to be asked.
func (g *gate) run(ctx context.Context) error {
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil
	}
	listener := g.listen(ctx)
	if listener == nil {
		return nil
	}
	address, err := g.host.options.reviewAddress(listener.Addr())
	if err != nil {
		g.obstruct(err)
		<-ctx.Done()
		return listener.Close()
	}
	return g.serve(ctx, listener, address)
}

// relisten is how soon it is tried again to listen.
const relisten = 5 * time.Second

// listen opens the address to be asked at, as soon as that is possible; nil if ctx
// ends before.
func (g *gate) listen(ctx context.Context) net.Listener {
	var config net.ListenConfig
	for {
		listener, err := config.Listen(ctx, "tcp", g.host.options.Admission.Address)
		if err == nil {
			g.obstruct(nil)
			return listener
		}
		g.obstruct(fmt.Errorf("listen for the API server: %w", err))
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
			return nil
		}
	}
}

// obstruct notes why the gate cannot be opened; nil if nothing is in the way.
func (g *gate) obstruct(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && textOf(err) != textOf(g.obstacle) {
		g.host.log.Warn("cannot be asked before objects are stored", "error", err.Error())
	}
	g.obstacle = err
}

// serve answers, and while this Host leads keeps what the API server needs to know
// for that.
func (g *gate) serve(ctx context.Context, listener net.Listener, address admission.Address) error {
	o := &g.host.options
	keeper := admission.NewKeeper(admission.KeeperOptions{
		Names: address.Names(), Lifetimes: o.Admission.lifetimes(),
		Secret: o.reviewSecret(), Store: g.host.store, Client: g.host.client, Log: g.host.log,
	})
	server := admission.NewServer(admission.ServerOptions{
		Observer: g, Log: g.host.log, Certificate: keeper.Certificate, LameDuck: o.lameDuck(),
		MaxConnections: reviewConnections(openFiles()), PathKeys: keeper.PathKeys, ClientCAs: o.Admission.clientCAs(),
	})
	registrar := admission.NewRegistrar(admission.RegistrarOptions{
		Registration: admission.Registration{Address: address, Namespace: o.Namespace, Group: o.reviewGroup(), Own: g.host.ownObjects(), Owner: g.host.presence.held},
		Keeper:       keeper, Store: g.host.store, Client: g.host.client, Log: g.host.log,
	})
	owner := g.home(ctx)
	g.mu.Lock()
	g.server, g.registrar, g.owner = server, registrar, owner
	g.announce()
	g.mu.Unlock()
	g.host.log.Info("serving reviews", "address", listener.Addr().String(), "to", address.String())
	defer g.unregister(ctx, address)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, listener) })
	group.Go(func() error { return keeper.Follow(ctx) })
	group.Go(func() error { g.host.office.during(ctx, keeper.Renew); return nil })
	group.Go(func() error { g.host.office.during(ctx, registrar.Run); return nil })
	return group.Wait()
}

// home is the namespace that this Host runs in, as an owner: what a Go program has
// registered goes with it. Who may not read it does without.
func (g *gate) home(ctx context.Context) *metav1.OwnerReference {
	name := g.host.options.home()
	if name == "" {
		return nil
	}
	data, err := exchange(ctx, g.host.client.Get().AbsPath(namespaces.Path("", name)))
	if err != nil {
		g.host.log.Debug("registrations have no owner", "namespace", name, "error", err.Error())
		return nil
	}
	o, err := object.Parse(data)
	if err != nil {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: types.UID(o.UID())}
}

var namespaces = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}

// owned is a program with an owner, if there is one. It is called with the lock held.
func (g *gate) owned(p *admission.Program) *admission.Program {
	if p.Owner != nil || g.owner == nil {
		return p
	}
	owned := *p
	owned.Owner = g.owner
	return &owned
}

// unregisterTime is how long it may take.
const unregisterTime = 5 * time.Second

// unregister tells the API server to ask no more when a process ends that nobody
// will take the place of: one that is asked by its own URL.
func (g *gate) unregister(ctx context.Context, address admission.Address) {
	if address.URL == "" || g.host.options.LeaderElection.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTime)
	defer cancel()
	err := admission.Unregister(ctx, g.host.client, g.host.options.reviewGroup())
	// An API server that is gone asks nobody.
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		g.host.log.Warn("the API server still asks for reviews", "error", err.Error())
	}
}
