package admission

import (
	"time"
)

// Reachability says whether the API server reaches the Server.
type Reachability string

// What is known of that.
const (
	// ReachabilityUnknown is said while it has not been found out, or cannot be.
	ReachabilityUnknown Reachability = ""
	Reachable           Reachability = "Reachable"
	Unreachable         Reachability = "Unreachable"
)

// Health is how the registration of a program is doing.
type Health struct {
	// Registered says that the API server has the configurations as they are wanted.
	Registered bool
	// Err is why it has not, or what is the matter although it has; nil if neither.
	Err error
	// Reachability says whether it reaches the Server, ReachabilityMessage in its own words why
	// not, or why that cannot be found out.
	Reachability        Reachability
	ReachabilityMessage string
	// Since is when it was last something else.
	Since time.Time
}

func (h Health) equal(other Health) bool {
	return h.Registered == other.Registered && errorText(h.Err) == errorText(other.Err) && h.Reachability == other.Reachability && h.ReachabilityMessage == other.ReachabilityMessage
}

// Health is how a program of that name is doing, as far as this replica knows,
// which is little unless it leads.
func (r *Registrar) Health(program string) Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health[program]
}

// updateHealth changes the health of a program, if it is one of those wanted, and tells
// it if it is news.
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

// resetHealth says that nothing is known any more.
func (r *Registrar) resetHealth() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for program := range r.health {
		r.health[program] = Health{}
	}
}
