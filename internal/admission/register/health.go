package register

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
