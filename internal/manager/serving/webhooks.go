package serving

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/admission/server"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// WebhookOptions configure Webhooks.
type WebhookOptions struct {
	Reach

	// APIServer is the address of the API server.
	APIServer string
	Store     *cache.Cache
	Client    rest.Interface
	Leader    *leader.Elector
	// Lease is the Lease that the webhook configurations depend on, if there is one.
	Lease func() types.NamespacedName
	// Exempt are objects that are not reviewed.
	Exempt register.ExemptObjects
	// Started reports whether all controllers listed at the start were reconciled once, Listed
	// whether all AdmissionControllers are known.
	Started, Listed func() bool
	Observer        ReviewObserver
	Log             *slog.Logger
	// Tracer is nil without traces.
	Tracer *trace.Tracer
}

// ReviewObserver records what webhooks do.
type ReviewObserver interface {
	// Reviewed receives each review with its controller, if that still exists. It must not block.
	Reviewed(o admission.ReviewRecord, controller queue.Key, exists bool)
	// EventAt records an event on an object that a review names.
	EventAt(user string, event hook.ObjectEvent)
}

// Webhooks serves admission webhooks. It starts with the first controller that has webhooks
// and then stays open, in every replica, so that the API server may use any.
type Webhooks struct {
	options WebhookOptions
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
	// rejected are controllers that were never accepted. Webhook configurations of an earlier process stay.
	rejected map[queue.Key]bool
	// server, registrar and certificates are nil before the address is open.
	server       *server.Server
	registrar    *register.Registrar
	certificates *certs.Manager
	// owner owns the webhook configurations of programs without an owner; nil for none.
	owner *metav1.OwnerReference
	// listenErr is why the address cannot be opened.
	listenErr error
	// failures are the failed reviews by controller.
	failures map[string]*reviewFailures
}

// NewWebhooks returns webhooks; Run opens their address when it is needed.
func NewWebhooks(o WebhookOptions) *Webhooks {
	w := &Webhooks{
		options: o, opened: make(chan struct{}),
		programs: map[queue.Key]*admission.Program{}, withdrawn: map[queue.Key]*admission.Program{}, rejected: map[queue.Key]bool{},
		failures: map[string]*reviewFailures{},
	}
	w.openOnce = sync.OnceFunc(func() { close(w.opened) })
	return w
}

// Set serves the program of a controller; nil withdraws it.
func (w *Webhooks) Set(key queue.Key, program *admission.Program) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.rejected, key)
	previous := cmp.Or(w.programs[key], w.withdrawn[key])
	switch {
	case program != nil:
		w.programs[key] = program
		delete(w.withdrawn, key)
		w.openOnce()
	case previous != nil:
		w.withdrawn[key] = previous.AllowAll()
		delete(w.programs, key)
	}
	w.publish()
}

// Reject records that a controller is not accepted.
func (w *Webhooks) Reject(key queue.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.programs[key] == nil {
		w.rejected[key] = true
		w.publish()
	}
}

// Yield stops registering the webhooks of a controller that another Setpoint runs now, or that may not
// have webhooks any more. It reviews what still arrives: the stored webhook configurations stay.
func (w *Webhooks) Yield(key queue.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if previous := w.programs[key]; previous != nil {
		w.withdrawn[key] = previous
		delete(w.programs, key)
	}
	w.rejected[key] = true
	w.publish()
}

// Publish registers the webhooks again: it is known now which configurations to remove, or Lease returns another Lease.
func (w *Webhooks) Publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.publish()
}

// publish passes the programs to the server and the registrar. The caller holds the lock.
func (w *Webhooks) publish() {
	if w.registrar == nil {
		return // The server is not open.
	}
	var accepted []*admission.Program
	for _, program := range w.programs {
		accepted = append(accepted, w.withOwner(program))
	}
	w.server.Set(slices.AppendSeq(slices.Clone(accepted), maps.Values(w.withdrawn)))
	if retained, known := w.Retained(); known {
		w.registrar.Set(accepted, retained...)
	}
}

// Retained returns the rejected controllers, whose webhook configurations stay;
// false while not all controllers are known.
func (w *Webhooks) Retained() ([]string, bool) {
	if !w.options.Started() || !w.options.Listed() {
		return nil, false
	}
	var refused []string
	for key := range w.rejected {
		refused = append(refused, key.String())
	}
	return refused, true
}

// Unused reports whether no controller has webhooks.
func (w *Webhooks) Unused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.opened:
		return false
	default:
		return w.options.Started() && len(w.rejected) == 0
	}
}

// Run opens the server with the first webhook and serves until ctx ends.
func (w *Webhooks) Run(ctx context.Context) error {
	select {
	case <-w.opened:
	case <-ctx.Done():
		return nil
	}
	listener := w.listen(ctx)
	if listener == nil {
		return nil
	}
	address, err := w.options.address(w.options.APIServer, listener.Addr())
	if err != nil {
		w.setListenErr(err)
		<-ctx.Done()
		return listener.Close()
	}
	return w.serve(ctx, listener, address)
}

// listenRetryInterval is the delay before another attempt to listen.
const listenRetryInterval = 5 * time.Second

// listen opens the address, with retries; nil if ctx ends first.
func (w *Webhooks) listen(ctx context.Context) (listener net.Listener) {
	_ = wait.PollUntilContextCancel(ctx, listenRetryInterval, true, func(ctx context.Context) (bool, error) {
		var err error
		if listener, err = listen(ctx, w.options.Address); err != nil {
			err = fmt.Errorf("listen for webhooks: %w", err)
		}
		w.setListenErr(err)
		return err == nil, nil
	})
	return listener
}

// setListenErr stores why the address cannot be opened; nil if it is open.
func (w *Webhooks) setListenErr(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && failure.Text(err) != failure.Text(w.listenErr) {
		w.options.Log.Warn("webhook server not started", "error", err.Error())
	}
	w.listenErr = err
}

// serve serves webhooks and, while this replica leads, registers them and renews certificates.
func (w *Webhooks) serve(ctx context.Context, listener net.Listener, address register.Address) error {
	o := &w.options
	certificates := certs.NewManager(certs.Options{
		Names: address.Names(), Lifetimes: o.lifetimes(),
		Secret: o.CertificateSecret(), Provided: o.ProvidesCertificates(), ServerName: address.ServerName(), Store: o.Store,
		Client: o.Client, Log: o.Log,
	})
	reviews := server.New(server.Options{
		Observer: w, Log: o.Log, Tracer: o.Tracer, Certificate: certificates.ServingCertificate, LameDuck: o.shutdownDelay(),
		MaxConnections: maxReviewConnections(MaxOpenFiles()), PathKeys: certificates.PathKeys, ClientCAs: o.clientCAs(),
	})
	registrar := register.New(register.Options{
		Registration: register.Registration{Address: address, Namespace: o.Namespace, Group: o.RegistrationGroup(), Exempt: o.Exempt,
			Lease: o.Lease},
		Certificates: certificates, Store: o.Store, Client: o.Client, Log: o.Log,
	})
	owner := w.namespaceOwner(ctx)
	w.mu.Lock()
	w.server, w.registrar, w.certificates, w.owner = reviews, registrar, certificates, owner
	w.publish()
	w.mu.Unlock()
	o.Log.Info("serving webhooks", "address", listener.Addr().String(), "to", address.String())
	defer w.unregister(ctx, address)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return reviews.Serve(ctx, listener) })
	group.Go(func() error { return certificates.Watch(ctx) })
	group.Go(func() error { o.Leader.WhileLeading(ctx, certificates.Renew); return nil })
	group.Go(func() error { o.Leader.WhileLeading(ctx, registrar.Run); return nil })
	return group.Wait()
}

// namespaceOwner returns the namespace of this process as an owner of webhook configurations, if Setpoint may read it.
func (w *Webhooks) namespaceOwner(ctx context.Context) *metav1.OwnerReference {
	name := w.options.PodNamespace()
	if name == "" {
		return nil
	}
	var o metav1.PartialObjectMetadata
	if err := w.options.Client.Get().AbsPath(object.Namespaces.Path("", name)).Do(ctx).Into(&o); err != nil {
		w.options.Log.Debug("webhook configurations have no owner", "namespace", name, "error", err.Error())
		return nil
	}
	return &metav1.OwnerReference{APIVersion: object.Namespaces.APIVersion(), Kind: object.Namespaces.Kind, Name: o.Name, UID: o.UID}
}

// withOwner returns a program with an owner, if there is one. The caller holds the lock.
func (w *Webhooks) withOwner(p *admission.Program) *admission.Program {
	if p.Owner != nil || w.owner == nil {
		return p
	}
	owned := *p
	owned.Owner = w.owner
	return &owned
}

// unregisterTimeout limits unregister.
const unregisterTimeout = 5 * time.Second

// unregister removes the webhook configurations when a process ends that no other replica
// replaces: one that is called by its own URL.
func (w *Webhooks) unregister(ctx context.Context, address register.Address) {
	if address.URL == "" || w.options.Leader.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	err := register.Unregister(ctx, w.options.Client, w.options.RegistrationGroup())
	// Without an API server there is nothing to unregister.
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		w.options.Log.Warn("webhook configurations not removed", "error", err.Error())
	}
}

// reviewFailures are the failed reviews of one controller.
type reviewFailures struct {
	// current maps webhooks to the error of their latest review, if it failed.
	current map[string]string
	last    controller.LastError
}

// Reviewed records a review. A removed controller leaves nothing, so the observer is called under the lock.
func (w *Webhooks) Reviewed(o admission.ReviewRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, exists := w.controllerOf(o.Program)
	w.options.Observer.Reviewed(o, key, exists)
	failed := w.failures[o.Program]
	switch {
	case !exists:
	case o.Err != nil:
		if failed == nil {
			failed = &reviewFailures{current: map[string]string{}}
			w.failures[o.Program] = failed
		}
		failed.current[o.Webhook] = failure.OneLine(o.Err)
		failed.last = controller.LastError{Message: failed.current[o.Webhook], Time: time.Now()}
	case failed != nil:
		delete(failed.current, o.Webhook)
	}
}

// EventAt records an event on an object that a review names.
func (w *Webhooks) EventAt(user string, event hook.ObjectEvent) {
	w.options.Observer.EventAt(user, event)
}

// controllerOf returns the controller of a program. The caller holds the lock.
func (w *Webhooks) controllerOf(program string) (key queue.Key, known bool) {
	for key, p := range w.programs {
		if p.Name == program {
			return key, true
		}
	}
	return queue.Key{}, false
}

// Health returns the health of a controller's reviews.
func (w *Webhooks) Health(program string) controller.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := controller.Health{Synced: true, WatchErrors: map[string]error{}}
	if failed := w.failures[program]; failed != nil {
		all.LastError, all.HookFailing = failed.last, len(failed.current)
		for _, webhook := range slices.Sorted(maps.Keys(failed.current)) {
			all.HookMessage = failed.current[webhook]
		}
	}
	return all
}

// Registered reports whether the API server calls the webhooks of a controller, as a condition. Only the leader knows.
func (w *Webhooks) Registered(program string) (ok bool, reason, message string) {
	w.mu.Lock()
	obstacle, registrar := w.listenErr, w.registrar
	w.mu.Unlock()
	switch {
	case obstacle != nil:
		return false, setpoint.ReasonUnregistered, obstacle.Error()
	case !w.options.Leader.Leads():
		return true, setpoint.ReasonReady, "standing by"
	case registrar == nil:
		return false, setpoint.ReasonStarting, "the webhook server is starting"
	}
	switch health := registrar.Health(program); {
	case health.Problem != "":
		return false, setpoint.ReasonUnregistered, health.Problem
	case !health.Registered:
		return false, setpoint.ReasonStarting, "the webhooks are being registered"
	case health.Reachability == register.Unreachable:
		return false, setpoint.ReasonUnreachable, "the API server cannot reach the webhooks: " + health.ReachabilityMessage
	case health.Reachability == register.ReachabilityUnknown && health.ReachabilityMessage != "":
		return true, setpoint.ReasonReady, "the webhooks are registered; whether the API server reaches them is unknown: " +
			health.ReachabilityMessage
	case health.Reachability == register.ReachabilityUnknown:
		return false, setpoint.ReasonStarting, "checking whether the API server reaches the webhooks"
	}
	return true, setpoint.ReasonReady, "the webhooks are registered and reachable"
}

// Registering reports whether it is still unknown if the API server calls all probed webhooks. In a
// standby replica that is up to the leader.
func (w *Webhooks) Registering() bool {
	w.mu.Lock()
	programs := slices.DeleteFunc(slices.Collect(maps.Values(w.programs)), func(p *admission.Program) bool { return p.Unprobed })
	w.mu.Unlock()
	if len(programs) > 0 && !w.options.Leader.Enabled && !w.options.Leader.Leads() {
		return true
	}
	return slices.ContainsFunc(programs, func(p *admission.Program) bool {
		_, reason, _ := w.Registered(p.Name)
		return reason == setpoint.ReasonStarting
	})
}

// ClearFailures clears the failures of a controller's latest reviews, except the last error.
func (w *Webhooks) ClearFailures(program string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if failed := w.failures[program]; failed != nil {
		clear(failed.current)
	}
}

// DropFailures removes a controller.
func (w *Webhooks) DropFailures(program string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failures, program)
}

// certificate returns the certificate of the webhook server; nil before that is open.
func (w *Webhooks) certificate() *x509.Certificate {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	certificates := w.certificates
	w.mu.Unlock()
	if certificates == nil {
		return nil
	}
	serving, err := certificates.ServingCertificate()
	if err != nil {
		return nil
	}
	return serving.Leaf
}
