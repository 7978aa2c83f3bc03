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

// RegistrarOptions configure a Registrar. All but the last three are needed.
type RegistrarOptions struct {
	Registration

	// Certificates gives the bundle, and is told which one the configurations carry.
	Certificates *CertificateManager
	// Store watches the configurations and Client writes them.
	Store  *cache.Cache
	Client rest.Interface
	// OnHealth is told when the health of a program changes; it must be quick.
	OnHealth func(program string)
	// Clock is the real one if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// Registrar keeps the webhook configurations of programs as they are wanted, and
// finds out whether the API server reaches the Server by them.
type Registrar struct {
	options RegistrarOptions
	// wake has Run look again.
	wake chan struct{}

	mu sync.Mutex
	// programs are those wanted, and spared the names of others that are let be; set
	// says that somebody has said which they are.
	programs []*Program
	retained []string
	set      bool
	health   map[string]Health
}

// NewRegistrar makes a Registrar. It does nothing before Run.
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

// Set says what programs there are. The configurations of all others are removed,
// those of former runs too, but for those of programs with a spared name: so it is
// not to be called before all are known.
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

// isRetained says that a configuration is one of a program that is let be.
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

// The kinds of configurations.
var (
	mutatingResource   = object.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "mutatingwebhookconfigurations", Kind: mutatingKind}
	validatingResource = object.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations", Kind: validatingKind}
)

// Run keeps the configurations until ctx ends. Only who leads does.
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

// syncLoop is one time of keeping the configurations.
type syncLoop struct {
	*Registrar

	views map[object.Resource]*cache.View
	// states are what was made to keep each configuration.
	states map[configurationKey]*configurationState
	// bundle is the one that is to be carried, and since when that is so.
	bundle propagation
	probes *probes
}

// configurationKey is where a configuration is stored.
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

// idleInterval is when a Registrar looks without a reason.
const idleInterval = 10 * time.Minute
