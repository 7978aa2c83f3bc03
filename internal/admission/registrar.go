package admission

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// RegistrarOptions configure a Registrar. All but the last three are required.
type RegistrarOptions struct {
	Registration

	// Certificates provides the bundle, and learns which one the configurations have.
	Certificates *CertificateManager
	// Store watches the configurations and Client writes them.
	Store  *cache.Cache
	Client rest.Interface
	// OnHealth is called when the health of a program changes; it must be fast.
	OnHealth func(program string)
	// Clock is the real clock if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// Registrar keeps the webhook configurations of programs in sync, and probes whether the
// API server reaches the Server.
type Registrar struct {
	options RegistrarOptions
	// wake wakes up Run.
	wake chan struct{}

	mu sync.Mutex
	// programs are desired, and retained are names of other programs whose configurations
	// stay. set reports that both are known.
	programs []*Program
	retained []string
	set      bool
	health   map[string]Health
}

// NewRegistrar returns a Registrar. Run starts it.
func NewRegistrar(o RegistrarOptions) *Registrar {
	if o.OnHealth == nil {
		o.OnHealth = func(string) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Certificates != nil {
		o.PathKey = func() PathKey { return o.Certificates.PathKeys().Key }
	}
	return &Registrar{options: o, wake: make(chan struct{}, 1), health: map[string]Health{}}
}

// Set sets the programs. Run removes all other configurations, also those of former runs,
// except for retained names. Call it when all programs are known.
func (r *Registrar) Set(programs []*Program, exempt ...string) {
	r.mu.Lock()
	r.programs, r.retained, r.set = programs, exempt, true
	current := map[string]Health{}
	for _, p := range programs {
		current[p.Name] = r.health[p.Name]
	}
	r.health = current
	r.mu.Unlock()
	r.trigger()
}

func (r *Registrar) desired() ([]*Program, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.programs, r.set
}

// isRetained reports whether a configuration belongs to a retained program.
func (r *Registrar) isRetained(o *object.Object) bool {
	name := annotation(o, programAnnotation)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.retained, name)
}

func (r *Registrar) trigger() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// The resources of webhook configurations.
var (
	mutatingResource   = object.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "mutatingwebhookconfigurations", Kind: mutatingKind}
	validatingResource = object.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations", Kind: validatingKind}
)

// Run syncs the configurations until ctx ends. Only the leader runs it.
func (r *Registrar) Run(ctx context.Context) {
	t := r.newSyncLoop()
	defer t.close()
	for _, view := range t.views {
		select {
		case <-view.ReadyOrFailed():
		case <-ctx.Done():
			return
		}
	}
	for ctx.Err() == nil {
		changed := r.options.Certificates.Changed()
		again := t.pass(ctx)
		t.probes.sync(ctx)
		timer := r.options.Clock.NewTimer(again.Sub(r.options.Clock.Now()))
		if !r.options.Clock.Now().Before(again) {
			r.trigger() // It has passed while the timer was being set.
		}
		select {
		case <-r.wake:
		case <-changed:
			t.probes.triggerAll()
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// syncLoop is one run of a Registrar.
type syncLoop struct {
	*Registrar

	views map[object.Resource]*cache.View
	// states are those of each configuration.
	states map[configurationKey]*configurationState
	// bundle is the desired bundle, and since when it is desired.
	bundle propagation
	probes *probes
}

// configurationKey identifies a configuration.
type configurationKey struct {
	resource object.Resource
	name     string
}

func (p configurationKey) String() string { return p.resource.Kind + " " + p.name }

func (r *Registrar) newSyncLoop() *syncLoop {
	t := &syncLoop{Registrar: r, views: map[object.Resource]*cache.View{}, states: map[configurationKey]*configurationState{}, probes: newProbes(r)}
	for _, resource := range []object.Resource{mutatingResource, validatingResource} {
		t.views[resource] = r.options.Store.Watch(
			cache.Selection{Resource: resource, Labels: groupLabel + "=" + r.options.Group},
			func(cache.Event) { r.trigger() },
		)
	}
	return t
}

func (t *syncLoop) close() {
	t.probes.stop()
	for _, view := range t.views {
		view.Close()
	}
	t.resetHealth()
}

// idleInterval is how often a Registrar checks without a cause.
const idleInterval = 10 * time.Minute
