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
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/admission/server"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// webhookServer serves admission webhooks. It starts with the first controller that has
// webhooks and then stays open, in every replica, so that the API server may use any.
type webhookServer struct {
	manager *Manager
	// openOnce closes opened.
	openOnce func()
	opened   chan struct{}

	mu sync.Mutex
	// programs are served, by controller. A refused controller keeps its last accepted
	// program: an invalid edit must not allow what was denied.
	programs map[queue.Key]*admission.Program
	// withdrawn are the programs of deleted and suspended controllers. They allow all
	// requests until the API server stops calling them.
	withdrawn map[queue.Key]*admission.Program
	// rejected are controllers that were never accepted. Webhook configurations of an earlier
	// process stay.
	rejected map[queue.Key]bool
	// server and registrar are nil before the address is open.
	server    *server.Server
	registrar *register.Registrar
	// owner owns the webhook configurations of programs without an owner; nil for none.
	owner *metav1.OwnerReference
	// listenErr is why the address cannot be opened.
	listenErr error
	// failures are the failed reviews by controller.
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

// set serves the program of a controller; nil withdraws it.
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

// reject records that a controller is not accepted.
func (s *webhookServer) reject(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.programs[key] == nil {
		s.rejected[key] = true
		s.publish()
	}
}

// remove withdraws the program of a deleted controller.
func (s *webhookServer) remove(key queue.Key) {
	s.set(key, nil)
}

// publish passes the programs to the server and the registrar. The caller holds the lock.
func (s *webhookServer) publish() {
	if s.registrar == nil {
		return // The server is not open.
	}
	all := s.acceptedPrograms()
	s.server.Set(slices.AppendSeq(slices.Clone(all), maps.Values(s.withdrawn)))
	if retained, known := s.retainedConfigurations(); known {
		s.registrar.Set(all, retained...)
	}
}

// acceptedPrograms returns the programs of accepted controllers.
func (s *webhookServer) acceptedPrograms() []*admission.Program {
	var all []*admission.Program
	for _, program := range s.programs {
		all = append(all, s.withOwner(program))
	}
	return all
}

// retainedConfigurations returns the rejected controllers, whose webhook configurations stay;
// false while not all controllers are known.
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

// initialSyncDone publishes when all controllers listed at the start were reconciled: only now
// is it known which webhook configurations to remove.
func (s *webhookServer) initialSyncDone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// ownerChanged publishes again: configurations name the process Lease.
func (s *webhookServer) ownerChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// unused reports whether no controller has webhooks.
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

// run opens the server with the first webhook and serves until ctx ends.
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

// listenRetryInterval is the delay before another attempt to listen.
const listenRetryInterval = 5 * time.Second

// listen opens the address, with retries; nil if ctx ends first.
func (s *webhookServer) listen(ctx context.Context) net.Listener {
	var config net.ListenConfig
	for {
		listener, err := config.Listen(ctx, "tcp", s.manager.options.Admission.Address)
		if err == nil {
			s.setListenErr(nil)
			return listener
		}
		s.setListenErr(fmt.Errorf("listen for webhooks: %w", err))
		select {
		case <-time.After(listenRetryInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// setListenErr stores why the address cannot be opened; nil if it is open.
func (s *webhookServer) setListenErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && failure.Text(err) != failure.Text(s.listenErr) {
		s.manager.log.Warn("webhook server not started", "error", err.Error())
	}
	s.listenErr = err
}

// serve serves webhooks and, while this replica leads, registers them and renews certificates.
func (s *webhookServer) serve(ctx context.Context, listener net.Listener, address register.Address) error {
	o := &s.manager.options
	certificates := certs.New(certs.Options{
		Names: address.Names(), Lifetimes: o.Admission.lifetimes(),
		Secret: o.certificateSecret(), Store: s.manager.store, Client: s.manager.client, Log: s.manager.log,
	})
	reviews := server.New(server.Options{
		Observer: s, Log: s.manager.log, Certificate: certificates.Certificate, LameDuck: o.shutdownDelay(),
		MaxConnections: maxReviewConnections(maxOpenFiles()), PathKeys: certificates.PathKeys, ClientCAs: o.Admission.clientCAs(),
	})
	registrar := register.New(register.Options{
		Registration: register.Registration{Address: address, Namespace: o.Namespace, Group: o.registrationGroup(), Exempt: s.manager.ownObjects(), Lease: s.manager.processLease.held},
		Certificates: certificates, Store: s.manager.store, Client: s.manager.client, Log: s.manager.log,
	})
	owner := s.namespaceOwner(ctx)
	s.mu.Lock()
	s.server, s.registrar, s.owner = reviews, registrar, owner
	s.publish()
	s.mu.Unlock()
	s.manager.log.Info("serving webhooks", "address", listener.Addr().String(), "to", address.String())
	defer s.unregister(ctx, address)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return reviews.Serve(ctx, listener) })
	group.Go(func() error { return certificates.Watch(ctx) })
	group.Go(func() error { s.manager.leader.WhileLeading(ctx, certificates.Renew); return nil })
	group.Go(func() error { s.manager.leader.WhileLeading(ctx, registrar.Run); return nil })
	return group.Wait()
}

// namespaceOwner returns the namespace of this Manager as an owner of webhook configurations,
// if Setpoint may read it.
func (s *webhookServer) namespaceOwner(ctx context.Context) *metav1.OwnerReference {
	name := s.manager.options.ownNamespace()
	if name == "" {
		return nil
	}
	data, err := request.Do(ctx, s.manager.client.Get().AbsPath(object.Namespaces.Path("", name)))
	if err != nil {
		s.manager.log.Debug("webhook configurations have no owner", "namespace", name, "error", err.Error())
		return nil
	}
	o, err := object.Parse(data)
	if err != nil {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: types.UID(o.UID())}
}

// withOwner returns a program with an owner, if there is one. The caller holds the lock.
func (s *webhookServer) withOwner(p *admission.Program) *admission.Program {
	if p.Owner != nil || s.owner == nil {
		return p
	}
	owned := *p
	owned.Owner = s.owner
	return &owned
}

// unregisterTimeout limits unregister.
const unregisterTimeout = 5 * time.Second

// unregister removes the webhook configurations when a process ends that no other replica
// replaces: one that is called by its own URL.
func (s *webhookServer) unregister(ctx context.Context, address register.Address) {
	if address.URL == "" || s.manager.options.LeaderElection.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	err := register.Unregister(ctx, s.manager.client, s.manager.options.registrationGroup())
	// Without an API server there is nothing to unregister.
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s.manager.log.Warn("webhook configurations not removed", "error", err.Error())
	}
}
