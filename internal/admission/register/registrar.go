package register

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

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

// Reachability is whether the API server reaches the Server.
type Reachability string

// The values of Reachability.
const (
	// ReachabilityUnknown means not yet probed, or not possible to probe.
	ReachabilityUnknown Reachability = ""
	Reachable           Reachability = "Reachable"
	Unreachable         Reachability = "Unreachable"
)

// Health is the state of the registration of a program.
type Health struct {
	// Registered reports that the API server has the desired configurations.
	Registered bool
	// Problem is why they are not registered, or a conflict although they are; "" for none.
	Problem string
	// Reachability is the result of probes, and ReachabilityMessage the API server's
	// error, or why the probe failed.
	Reachability        Reachability
	ReachabilityMessage string
}

// New returns a Registrar. Run starts it.
func New(o Options) *Registrar {
	o.Clock, o.Log = cmp.Or[clock.Clock](o.Clock, clock.RealClock{}), cmp.Or(o.Log, slog.Default())
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

func (r *Registrar) wanted() ([]*admission.Program, bool) {
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

// Health returns the health of a program, as far as this replica knows: only the leader
// probes.
func (r *Registrar) Health(program string) Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health[program]
}

// updateHealth changes the health of a desired program.
func (r *Registrar) updateHealth(program string, change func(*Health)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if health, wanted := r.health[program]; wanted {
		change(&health)
		r.health[program] = health
	}
}
