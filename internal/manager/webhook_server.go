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

func newWebhookServer(m *Manager) *webhookServer {
	s := &webhookServer{
		manager: m, opened: make(chan struct{}),
		programs: map[queue.Key]*admission.Program{}, withdrawn: map[queue.Key]*admission.Program{}, rejected: map[queue.Key]bool{}, failures: map[string]*reviewFailures{},
	}
	s.openOnce = sync.OnceFunc(func() { close(s.opened) })
	return s
}

// set has a controller's program asked from now on; nil for one that wants to be
// asked nothing.
func (s *webhookServer) set(key queue.Key, program *admission.Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	program = s.manager.inFlight.wrapReviews(program)
	delete(s.rejected, key)
	previous := s.programs[key]
	switch {
	case program != nil:
		s.programs[key] = program
		delete(s.withdrawn, key)
		s.openOnce()
	case previous != nil:
		s.withdrawn[key] = previous.AllowAll()
		delete(s.programs, key)
	}
	s.publish()
}

// reject notes that a controller cannot be accepted as it is, or now.
func (s *webhookServer) reject(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.programs[key] == nil {
		s.rejected[key] = true
		s.publish()
	}
}

// remove forgets a controller that is gone.
func (s *webhookServer) remove(key queue.Key) {
	s.set(key, nil)
}

// publish tells the server, and the API server, what is asked now. It is called
// with the lock held.
func (s *webhookServer) publish() {
	if s.registrar == nil {
		return // The gate is not open.
	}
	all := s.acceptedPrograms()
	s.server.Set(slices.AppendSeq(slices.Clone(all), maps.Values(s.withdrawn)))
	if spared, known := s.retainedConfigurations(); known {
		s.registrar.Set(all, spared...)
	}
}

// acceptedPrograms are the programs of the controllers that are accepted.
func (s *webhookServer) acceptedPrograms() []*admission.Program {
	var all []*admission.Program
	for _, program := range s.programs {
		all = append(all, s.withOwner(program))
	}
	return all
}

// retainedConfigurations are the controllers without a program whose registered configurations stay; false
// while it is not known which controllers there are.
func (s *webhookServer) retainedConfigurations() ([]string, bool) {
	if !s.manager.controllers.started.Load() || !s.manager.controllers.admissionControllersListed() {
		return nil, false
	}
	var refused []string
	for key := range s.rejected {
		refused = append(refused, key.String())
	}
	return refused, true
}

// initialSyncDone says that all controllers have been looked at that were there at the
// start: from now on it is known what nobody wants any more.
func (s *webhookServer) initialSyncDone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// ownerChanged registers again: the configurations name the Lease that this process holds.
func (s *webhookServer) ownerChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// unused says that no controller that was there at the start has reviews, as far as all
// were accepted.
func (s *webhookServer) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.opened:
		return false
	default:
		return s.manager.controllers.started.Load() && len(s.rejected) == 0
	}
}

// run serves the API server until ctx ends, once there is something to be asked.
func (s *webhookServer) run(ctx context.Context) error {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return nil
	}
	listener := s.listen(ctx)
	if listener == nil {
		return nil
	}
	address, err := s.manager.options.webhookAddress(listener.Addr())
	if err != nil {
		s.setListenErr(err)
		<-ctx.Done()
		return listener.Close()
	}
	return s.serve(ctx, listener, address)
}

// listenRetryInterval is how soon it is tried again to listen.
const listenRetryInterval = 5 * time.Second

// listen opens the address to be asked at, as soon as that is possible; nil if ctx
// ends before.
func (s *webhookServer) listen(ctx context.Context) net.Listener {
	var config net.ListenConfig
	for {
		listener, err := config.Listen(ctx, "tcp", s.manager.options.Admission.Address)
		if err == nil {
			s.setListenErr(nil)
			return listener
		}
		s.setListenErr(fmt.Errorf("listen for the API server: %w", err))
		select {
		case <-time.After(listenRetryInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// setListenErr notes why the gate cannot be opened; nil if nothing is in the way.
func (s *webhookServer) setListenErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && errorText(err) != errorText(s.listenErr) {
		s.manager.log.Warn("cannot be asked before objects are stored", "error", err.Error())
	}
	s.listenErr = err
}

// serve answers, and while this Host leads keeps what the API server needs to know
// for that.
func (s *webhookServer) serve(ctx context.Context, listener net.Listener, address admission.Address) error {
	o := &s.manager.options
	certificates := admission.NewCertificateManager(admission.CertificateManagerOptions{
		Names: address.Names(), Lifetimes: o.Admission.lifetimes(),
		Secret: o.certificateSecret(), Store: s.manager.store, Client: s.manager.client, Log: s.manager.log,
	})
	server := admission.NewServer(admission.ServerOptions{
		Observer: s, Log: s.manager.log, Certificate: certificates.Certificate, LameDuck: o.shutdownDelay(),
		MaxConnections: maxReviewConnections(maxOpenFiles()), PathKeys: certificates.PathKeys, ClientCAs: o.Admission.clientCAs(),
	})
	registrar := admission.NewRegistrar(admission.RegistrarOptions{
		Registration: admission.Registration{Address: address, Namespace: o.Namespace, Group: o.registrationGroup(), Exempt: s.manager.ownObjects(), Lease: s.manager.processLease.held},
		Certificates: certificates, Store: s.manager.store, Client: s.manager.client, Log: s.manager.log,
	})
	owner := s.namespaceOwner(ctx)
	s.mu.Lock()
	s.server, s.registrar, s.owner = server, registrar, owner
	s.publish()
	s.mu.Unlock()
	s.manager.log.Info("serving reviews", "address", listener.Addr().String(), "to", address.String())
	defer s.unregister(ctx, address)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, listener) })
	group.Go(func() error { return certificates.Watch(ctx) })
	group.Go(func() error { s.manager.leadership.whileLeading(ctx, certificates.Renew); return nil })
	group.Go(func() error { s.manager.leadership.whileLeading(ctx, registrar.Run); return nil })
	return group.Wait()
}

// namespaceOwner is the namespace that this Host runs in, as an owner: what a Go program has
// registered goes with it. Who may not read it does without.
func (s *webhookServer) namespaceOwner(ctx context.Context) *metav1.OwnerReference {
	name := s.manager.options.ownNamespace()
	if name == "" {
		return nil
	}
	data, err := doRequest(ctx, s.manager.client.Get().AbsPath(namespaceResource.Path("", name)))
	if err != nil {
		s.manager.log.Debug("registrations have no owner", "namespace", name, "error", err.Error())
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
func (s *webhookServer) withOwner(p *admission.Program) *admission.Program {
	if p.Owner != nil || s.owner == nil {
		return p
	}
	owned := *p
	owned.Owner = s.owner
	return &owned
}

// unregisterTimeout is how long it may take.
const unregisterTimeout = 5 * time.Second

// unregister tells the API server to ask no more when a process ends that nobody
// will take the place of: one that is asked by its own URL.
func (s *webhookServer) unregister(ctx context.Context, address admission.Address) {
	if address.URL == "" || s.manager.options.LeaderElection.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	err := admission.Unregister(ctx, s.manager.client, s.manager.options.registrationGroup())
	// An API server that is gone asks nobody.
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s.manager.log.Warn("the API server still asks for reviews", "error", err.Error())
	}
}
