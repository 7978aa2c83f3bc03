package supervise

import "time"

// Policy limits restarts. The zero value suits servers.
type Policy struct {
	FirstDelay time.Duration // before the first restart; 100 ms if zero
	MaxDelay   time.Duration // between restarts; 5 s if zero
	// Settled is how long a run must last to count as a success, after which
	// an exit is treated as the first one again; 3 s if zero.
	Settled time.Duration
	// Tries is how many runs in a row may end unsettled before the process is
	// given up; 6 if zero.
	Tries int
}

func (p Policy) withDefaults() Policy {
	if p.FirstDelay == 0 {
		p.FirstDelay = 100 * time.Millisecond
	}
	if p.MaxDelay == 0 {
		p.MaxDelay = 5 * time.Second
	}
	if p.Settled == 0 {
		p.Settled = 3 * time.Second
	}
	if p.Tries == 0 {
		p.Tries = 6
	}
	return p
}

// restartStreak counts the runs in a row that ended too soon.
type restartStreak struct {
	policy Policy
	short  int
}

// ended records a run and says how long to wait before the next one, or that
// there should be none.
func (s *restartStreak) ended(ran time.Duration) (delay time.Duration, again bool) {
	if ran >= s.policy.Settled {
		s.short = 0
	}
	s.short++
	if s.short >= s.policy.Tries {
		return 0, false
	}
	delay = s.policy.FirstDelay
	for range s.short - 1 {
		delay = min(2*delay, s.policy.MaxDelay)
	}
	return delay, true
}
