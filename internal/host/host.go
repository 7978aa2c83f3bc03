// Package host runs controllers against one cluster: it wires all the other
// rooms together and is the only one that knows them all.
//
// Here live installing our CRDs, finding out what the API server serves,
// starting and stopping a controller per controller object, telling how each is
// doing in its status, events, metrics and the health endpoints. How a
// controller works is the engine's business. The command line, the dev loop and
// (later) the SDK call it.
package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Host runs controllers against one cluster.
type Host struct {
	options Options
	log     *slog.Logger
	client  rest.Interface
	// definitions are the CRDs that it installs.
	definitions []definition
	lost        lostDefinitions
	upkeep      *upkeep
	store       *store.Store
	metrics     *metrics
	events      *events
	fleet       *fleet
	gate        *gate
	inFlight    *inFlight
	endpoints   *endpoints
	connections *webhook.Connections
	neighbours  *neighbours
	office      *office
	lock        *lock
	presence    *presence
	book        *inspect.Book
	started     time.Time
	look        look
	ready       chan struct{}
	// lacking says that it stands by for a leader that is to install CRDs.
	lacking atomic.Bool
	once    sync.Once
}

// New makes a Host. It does not reach for the cluster yet.
func New(o Options) (*Host, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	installs, err := definitionsOf(o)
	if err != nil {
		return nil, err
	}
	client, err := clientFor(o)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	h := &Host{options: o, log: o.Log, client: client, definitions: installs, office: newOffice(), inFlight: newInFlight(), endpoints: newEndpoints(), connections: webhook.NewConnections(openFiles() / 2), started: time.Now(), ready: make(chan struct{})}
	h.book = inspect.NewBook(inspect.BookOptions(o.History), h.started)
	if h.lock, err = newLock(o); err != nil {
		return nil, err
	}
	if h.presence, err = newPresence(o); err != nil {
		return nil, err
	}
	h.store = store.New(client, store.Options{Log: o.Log, OnHealth: h.watchChanged})
	h.metrics = newMetrics()
	h.events = newEvents(client, o)
	h.neighbours = &neighbours{look: h.lookForMetacontrollers, now: time.Now}
	h.fleet, h.gate = newFleet(h), newGate(h)
	if h.presence != nil {
		h.presence.onHeld = h.gate.ownerChanged
	}
	if h.upkeep, err = newUpkeep(h); err != nil {
		return nil, err
	}
	h.metrics.watch(h.store, h.fleet)
	h.office.measure(h.metrics.registry)
	return h, nil
}

// watchChanged is told when a watch stops working and when it works again. Then
// the API server is back, and with it what parents have failed for.
func (h *Host) watchChanged(_ store.Selection, err error) {
	if err != nil {
		return
	}
	for _, r := range h.fleet.atWork() {
		r.retryWrites()
	}
}

// clientFor makes the one client all rooms share. Its own rate limit is off
// unless asked for: the server has priority and fairness.
func clientFor(o Options) (rest.Interface, error) {
	c := rest.CopyConfig(o.Config)
	c.QPS, c.Burst = -1, -1
	if o.ClientQPS > 0 {
		c.QPS, c.Burst = o.ClientQPS, cmp.Or(o.ClientBurst, max(1, int(2*o.ClientQPS)))
	}
	c.UserAgent = o.userAgent()
	// The server is near; compressing for it costs both sides more than it saves.
	c.DisableCompression = true
	c.APIPath, c.GroupVersion = "/", &schema.GroupVersion{}
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // the Status of a refusal
	c.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return rest.UnversionedRESTClientForConfigAndClient(c, client)
}

// exchange does one request. The error of a refusal has the server's own words,
// which the raw form of an answer does not.
func exchange(ctx context.Context, request *rest.Request) ([]byte, error) {
	return exchangeAs(ctx, "application/json", request)
}

// exchangeAs is exchange for an answer of another media type.
func exchangeAs(ctx context.Context, mediaType string, request *rest.Request) ([]byte, error) {
	result := request.SetHeader("Accept", mediaType).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// Run works until the context ends. An error says why it could not start.
func (h *Host) Run(ctx context.Context) error {
	listeners, err := h.listen(ctx)
	if err != nil {
		return err
	}
	inspected, withdraw, err := h.openInspection(ctx)
	if err != nil {
		closeAll(listeners)
		return err
	}
	defer withdraw()
	group, ctx := errgroup.WithContext(ctx)
	for _, listener := range append(listeners, inspected...) {
		group.Go(func() error { return h.serve(ctx, listener) })
	}
	group.Go(func() error { return h.gate.run(ctx) })
	group.Go(func() error { return h.control(ctx) })
	group.Go(func() error { h.presence.run(ctx); return nil })
	group.Go(func() error { h.office.during(ctx, h.collectAbandoned); return nil })
	return group.Wait()
}

// Ready is closed once CRDs are installed and the caches of all controllers
// that were there at the start are synced, and it is known whether the API server asks
// those that are to be asked.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// HookRestarted has the parents of every controller whose hook is behind an
// address, host or host:port, synced at once.
func (h *Host) HookRestarted(address string) {
	h.endpoints.setUp(address)
	h.fleet.hookRestarted(address)
}

// HookDown says that nothing answers at an address, host or host:port, and why. Until
// HookRestarted, the controllers whose hooks are behind it are not ready.
func (h *Host) HookDown(address string, err error) { h.endpoints.setDown(address, err) }

// environment is what the compiler may know of the world.
func (h *Host) environment() compile.Environment {
	return compile.Environment{
		Resolve:       h.resolve,
		ResolveKind:   h.resolveKind,
		StatusOf:      h.statusOf,
		Dial:          h.options.Dial,
		Routed:        h.options.Routed,
		UserAgent:     "setpoint/" + h.options.Version,
		Limits:        h.options.HookLimits,
		Connections:   h.connections,
		Workers:       h.options.Workers,
		Resync:        h.options.Resync,
		Namespace:     h.options.Namespace,
		Home:          h.options.home(),
		ApplyStrategy: plan.Strategy(h.options.ApplyStrategy), NoDeletionGuard: h.options.NoDeletionGuard,
		FieldManager: h.options.FieldManager,
		Store:        h.store,
		Renewed:      h.fleet.credentialsRenewed,
		Called:       h.called,
	}
}

// tools are what programs of hooks work with.
func (h *Host) tools() engine.Tools {
	return engine.Tools{
		Store:    h.store,
		Writer:   h.writer(),
		Observer: h.observer(), Unrecorded: h.options.History.Off,
		Log:     h.log,
		Resolve: h.resolve,
	}
}

func (h *Host) writer() *apply.Writer {
	return apply.New(h.client, apply.Options{Observe: h.metrics.wrote})
}
