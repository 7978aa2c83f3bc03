package manager

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

// webhookServer is where the API server asks before objects are stored. It opens with the
// first controller that wants to be asked, and stays open: in every replica, leading
// or not, so that the API server finds somebody whichever it comes to.
type webhookServer struct {
	manager *Manager
	// openOnce is closed when there is something to be asked.
	openOnce func()
	opened   chan struct{}

	mu sync.Mutex
	// programs are what is asked, by controller. One whose controller is refused
	// stays as it was accepted last: an edit that is wrong must not let pass what was
	// forbidden.
	programs map[queue.Key]*admission.Program
	// withdrawn are those of controllers that are gone, or suspended. For as long as
	// the API server goes on asking, all is allowed.
	withdrawn map[queue.Key]*admission.Program
	// rejected are the controllers of which nothing was accepted yet. What the API
	// server knows of them from a former run stays.
	rejected map[queue.Key]bool
	// server and registrar are nil before the gate is open.
	server    *admission.Server
	registrar *admission.Registrar
	// owner is who the registrations of programs go with that have no owner; nil for
	// nobody.
	owner *metav1.OwnerReference
	// listenErr is why the gate cannot be opened.
	listenErr error
	// failures are the reviews of controllers that had no verdict the last time.
	failures map[string]*reviewFailures
}

func newWebhookServer(h *Manager) *webhookServer {
	g := &webhookServer{
		manager: h, opened: make(chan struct{}),
		programs: map[queue.Key]*admission.Program{}, withdrawn: map[queue.Key]*admission.Program{}, rejected: map[queue.Key]bool{}, failures: map[string]*reviewFailures{},
	}
	g.openOnce = sync.OnceFunc(func() { close(g.opened) })
	return g
}

// set has a controller's program asked from now on; nil for one that wants to be
// asked nothing.
func (g *webhookServer) set(key queue.Key, program *admission.Program) {
	g.mu.Lock()
	defer g.mu.Unlock()
	program = g.manager.inFlight.wrapReviews(program)
	delete(g.rejected, key)
	previous := g.programs[key]
	switch {
	case program != nil:
		g.programs[key] = program
		delete(g.withdrawn, key)
		g.openOnce()
	case previous != nil:
		g.withdrawn[key] = previous.AllowAll()
		delete(g.programs, key)
	}
	g.publish()
}

// reject notes that a controller cannot be accepted as it is, or now.
func (g *webhookServer) reject(key queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.programs[key] == nil {
		g.rejected[key] = true
		g.publish()
	}
}

// remove forgets a controller that is gone.
func (g *webhookServer) remove(key queue.Key) {
	g.set(key, nil)
}

// publish tells the server, and the API server, what is asked now. It is called
// with the lock held.
func (g *webhookServer) publish() {
	if g.registrar == nil {
		return // The gate is not open.
	}
	all := g.acceptedPrograms()
	g.server.Set(slices.AppendSeq(slices.Clone(all), maps.Values(g.withdrawn)))
	if spared, known := g.retainedConfigurations(); known {
		g.registrar.Set(all, spared...)
	}
}

// acceptedPrograms are the programs of the controllers that are accepted.
func (g *webhookServer) acceptedPrograms() []*admission.Program {
	var all []*admission.Program
	for _, program := range g.programs {
		all = append(all, g.withOwner(program))
	}
	return all
}

// retainedConfigurations are the controllers without a program whose registered configurations stay; false
// while it is not known which controllers there are.
func (g *webhookServer) retainedConfigurations() ([]string, bool) {
	if !g.manager.controllers.started.Load() || !g.manager.controllers.admissionControllersListed() {
		return nil, false
	}
	var refused []string
	for key := range g.rejected {
		refused = append(refused, key.String())
	}
	return refused, true
}

// initialSyncDone says that all controllers have been looked at that were there at the
// start: from now on it is known what nobody wants any more.
func (g *webhookServer) initialSyncDone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.publish()
}

// ownerChanged registers again: the configurations name the Lease that this process holds.
func (g *webhookServer) ownerChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.publish()
}

// unused says that no controller that was there at the start has reviews, as far as all
// were accepted.
func (g *webhookServer) unused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		return false
	default:
		return g.manager.controllers.started.Load() && len(g.rejected) == 0
	}
}

// run serves the API server until ctx ends, once there is something to be asked.
func (g *webhookServer) run(ctx context.Context) error {
	select {
	case <-g.opened:
	case <-ctx.Done():
		return nil
	}
	listener := g.listen(ctx)
	if listener == nil {
		return nil
	}
	address, err := g.manager.options.webhookAddress(listener.Addr())
	if err != nil {
		g.setListenErr(err)
		<-ctx.Done()
		return listener.Close()
	}
	return g.serve(ctx, listener, address)
}

// listenRetryInterval is how soon it is tried again to listen.
const listenRetryInterval = 5 * time.Second

// listen opens the address to be asked at, as soon as that is possible; nil if ctx
// ends before.
func (g *webhookServer) listen(ctx context.Context) net.Listener {
	var config net.ListenConfig
	for {
		listener, err := config.Listen(ctx, "tcp", g.manager.options.Admission.Address)
		if err == nil {
			g.setListenErr(nil)
			return listener
		}
		g.setListenErr(fmt.Errorf("listen for the API server: %w", err))
		select {
		case <-time.After(listenRetryInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// setListenErr notes why the gate cannot be opened; nil if nothing is in the way.
func (g *webhookServer) setListenErr(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && errorText(err) != errorText(g.listenErr) {
		g.manager.log.Warn("cannot be asked before objects are stored", "error", err.Error())
	}
	g.listenErr = err
}

// serve answers, and while this Host leads keeps what the API server needs to know
// for that.
func (g *webhookServer) serve(ctx context.Context, listener net.Listener, address admission.Address) error {
	o := &g.manager.options
	certificates := admission.NewCertificateManager(admission.CertificateManagerOptions{
		Names: address.Names(), Lifetimes: o.Admission.lifetimes(),
		Secret: o.certificateSecret(), Store: g.manager.store, Client: g.manager.client, Log: g.manager.log,
	})
	server := admission.NewServer(admission.ServerOptions{
		Observer: g, Log: g.manager.log, Certificate: certificates.Certificate, LameDuck: o.shutdownDelay(),
		MaxConnections: maxReviewConnections(maxOpenFiles()), PathKeys: certificates.PathKeys, ClientCAs: o.Admission.clientCAs(),
	})
	registrar := admission.NewRegistrar(admission.RegistrarOptions{
		Registration: admission.Registration{Address: address, Namespace: o.Namespace, Group: o.registrationGroup(), Exempt: g.manager.ownObjects(), Lease: g.manager.processLease.held},
		Certificates: certificates, Store: g.manager.store, Client: g.manager.client, Log: g.manager.log,
	})
	owner := g.namespaceOwner(ctx)
	g.mu.Lock()
	g.server, g.registrar, g.owner = server, registrar, owner
	g.publish()
	g.mu.Unlock()
	g.manager.log.Info("serving reviews", "address", listener.Addr().String(), "to", address.String())
	defer g.unregister(ctx, address)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, listener) })
	group.Go(func() error { return certificates.Watch(ctx) })
	group.Go(func() error { g.manager.leadership.whileLeading(ctx, certificates.Renew); return nil })
	group.Go(func() error { g.manager.leadership.whileLeading(ctx, registrar.Run); return nil })
	return group.Wait()
}

// namespaceOwner is the namespace that this Host runs in, as an owner: what a Go program has
// registered goes with it. Who may not read it does without.
func (g *webhookServer) namespaceOwner(ctx context.Context) *metav1.OwnerReference {
	name := g.manager.options.ownNamespace()
	if name == "" {
		return nil
	}
	data, err := doRequest(ctx, g.manager.client.Get().AbsPath(namespaceResource.Path("", name)))
	if err != nil {
		g.manager.log.Debug("registrations have no owner", "namespace", name, "error", err.Error())
		return nil
	}
	o, err := object.Parse(data)
	if err != nil {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: types.UID(o.UID())}
}

var namespaceResource = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}

// withOwner is a program with an owner, if there is one. It is called with the lock held.
func (g *webhookServer) withOwner(p *admission.Program) *admission.Program {
	if p.Owner != nil || g.owner == nil {
		return p
	}
	owned := *p
	owned.Owner = g.owner
	return &owned
}

// unregisterTimeout is how long it may take.
const unregisterTimeout = 5 * time.Second

// unregister tells the API server to ask no more when a process ends that nobody
// will take the place of: one that is asked by its own URL.
func (g *webhookServer) unregister(ctx context.Context, address admission.Address) {
	if address.URL == "" || g.manager.options.LeaderElection.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	err := admission.Unregister(ctx, g.manager.client, g.manager.options.registrationGroup())
	// An API server that is gone asks nobody.
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		g.manager.log.Warn("the API server still asks for reviews", "error", err.Error())
	}
}
