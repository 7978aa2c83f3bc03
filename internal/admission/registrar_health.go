package admission

import (
	"time"
)

// Reach says whether the API server reaches the Server.
type Reach string

// What is known of that.
const (
	// ReachUnknown is said while it has not been found out, or cannot be.
	ReachUnknown Reach = ""
	Reachable    Reach = "Reachable"
	Unreachable  Reach = "Unreachable"
)

// Health is how the registration of a program is doing.
type Health struct {
	// Registered says that the API server has the configurations as they are wanted.
	Registered bool
	// Err is why it has not, or what is the matter although it has; nil if neither.
	Err error
	// Reach says whether it reaches the Server, ReachMessage in its own words why
	// not, or why that cannot be found out.
	Reach        Reach
	ReachMessage string
	// Since is when it was last something else.
	Since time.Time
}

func (h Health) equal(other Health) bool {
	return h.Registered == other.Registered && said(h.Err) == said(other.Err) && h.Reach == other.Reach && h.ReachMessage == other.ReachMessage
}

// Health is how a program of that name is doing, as far as this replica knows,
// which is little unless it leads.
func (r *Registrar) Health(program string) Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health[program]
}

// update changes the health of a program, if it is one of those wanted, and tells
// it if it is news.
func (r *Registrar) update(program string, change func(*Health)) {
	r.mu.Lock()
	before, wanted := r.health[program]
	after := before
	change(&after)
	news := wanted && !after.equal(before)
	if news {
		after.Since = r.options.Clock.Now()
		r.health[program] = after
	}
	r.mu.Unlock()
	if news {
		r.options.OnHealth(program)
	}
}

// forget says that nothing is known any more.
func (r *Registrar) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for program := range r.health {
		r.health[program] = Health{}
	}
}
