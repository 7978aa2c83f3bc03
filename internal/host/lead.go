package host

// LeaderElection says which of several Setpoints works.
type LeaderElection struct {
	// Enabled has them elect one; else each works.
	Enabled bool
}
