package supervise

import (
	"testing"
	"time"
)

func TestBackoffDoublesUntilGivenUp(t *testing.T) {
	s := restartStreak{policy: Policy{FirstDelay: time.Second, MaxDelay: 3 * time.Second, Tries: 5}.withDefaults()}
	for i, want := range []time.Duration{1, 2, 3, 3} {
		delay, again := s.ended(0)
		if delay != want*time.Second || !again {
			t.Errorf("after %d short runs: %v, %v", i+1, delay, again)
		}
	}
	if _, again := s.ended(0); again {
		t.Error("tried once too often")
	}
}

func TestLongRunResetsBackoff(t *testing.T) {
	s := restartStreak{policy: Policy{}.withDefaults()}
	for range 4 {
		s.ended(0)
	}
	if delay, again := s.ended(s.policy.Settled); delay != s.policy.FirstDelay || !again {
		t.Errorf("after a long run: %v, %v", delay, again)
	}
}
