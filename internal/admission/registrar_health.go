package admission

import (
	"time"
)

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
	// Err is why they are not registered, or a conflict although they are.
	Err error
	// Reachability is the result of probes, and ReachabilityMessage the API server's
	// error, or why the probe failed.
	Reachability        Reachability
	ReachabilityMessage string
	// Since is when the health last changed.
	Since time.Time
}

func (h Health) equal(other Health) bool {
	return h.Registered == other.Registered && errorText(h.Err) == errorText(other.Err) && h.Reachability == other.Reachability && h.ReachabilityMessage == other.ReachabilityMessage
}

// Health returns the health of a program, as far as this replica knows: only the leader
// probes.
func (r *Registrar) Health(program string) Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health[program]
}

// updateHealth changes the health of a desired program, and reports a change.
func (r *Registrar) updateHealth(program string, change func(*Health)) {
	r.mu.Lock()
	before, wanted := r.health[program]
	after := before
	change(&after)
	changed := wanted && !after.equal(before)
	if changed {
		after.Since = r.options.Clock.Now()
		r.health[program] = after
	}
	r.mu.Unlock()
	if changed {
		r.options.OnHealth(program)
	}
}

func (r *Registrar) resetHealth() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for program := range r.health {
		r.health[program] = Health{}
	}
}
