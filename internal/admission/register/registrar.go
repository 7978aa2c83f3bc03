package register

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Registrar. All but the last two are required.
type Options struct {
	Registration

	// Certificates provides the bundle, and learns which one the configurations have.
	Certificates *certs.Manager
	// Store watches the configurations and Client writes them.
	Store  *cache.Cache
	Client rest.Interface
	// Clock is the real clock if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// Registrar keeps the webhook configurations of programs in sync, and probes whether the
// API server reaches the Server.
type Registrar struct {
	options Options
	// wake wakes up Run.
	wake signal

	mu sync.Mutex
	// programs are desired, and retained are names of other programs whose configurations
	// stay. set reports that both are known.
	programs []*admission.Program
	retained []string
	set      bool
	health   map[string]Health
}

// New returns a Registrar. Run starts it.
func New(o Options) *Registrar {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Certificates != nil {
		o.PathKey = func() admission.PathKey { return o.Certificates.PathKeys().Key }
	}
	return &Registrar{options: o, wake: newSignal(), health: map[string]Health{}}
}

// Set sets the programs. Run removes all other configurations, also those of former runs,
// except for retained names. Call it when all programs are known.
func (r *Registrar) Set(programs []*admission.Program, exempt ...string) {
	r.mu.Lock()
	r.programs, r.retained, r.set = programs, exempt, true
	current := map[string]Health{}
	for _, p := range programs {
		current[p.Name] = r.health[p.Name]
	}
	r.health = current
	r.mu.Unlock()
	r.wake.send()
}

func (r *Registrar) desired() ([]*admission.Program, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.programs, r.set
}

// isRetained reports whether a configuration belongs to a retained program.
func (r *Registrar) isRetained(o *object.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.retained, programOf(o))
}

// Run syncs the configurations until ctx ends. Only the leader runs it.
func (r *Registrar) Run(ctx context.Context) {
	t := &syncLoop{
		Registrar: r, states: map[configurationKey]*configurationState{},
		probes: &probes{registrar: r, byKey: map[probeKey]*prober{}},
		views:  watchConfigurations(r.options.Store, groupLabel+"="+r.options.Group, r.wake),
	}
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
			r.wake.send() // It has passed while the timer was being set.
		}
		select {
		case <-r.wake:
		case <-changed:
			for _, one := range t.probes.byKey {
				one.now.send()
			}
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// syncLoop is one run of a Registrar.
type syncLoop struct {
	*Registrar

	views views
	// states are those of each configuration.
	states map[configurationKey]*configurationState
	// bundle is the desired bundle, and bundleSince since when it is desired.
	bundle      []byte
	bundleSince time.Time
	probes      *probes
}

func (t *syncLoop) close() {
	t.probes.stop()
	t.views.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for program := range t.health {
		t.health[program] = Health{}
	}
}

// idleInterval is how often a Registrar checks without a cause.
const idleInterval = 10 * time.Minute
