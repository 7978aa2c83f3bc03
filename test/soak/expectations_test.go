package soak

import "sync"

// expectations is what those who take part remember for the check.
type expectations struct {
	mu sync.Mutex
	// parents are the parents that were created and not deleted.
	parents map[string]bool
	// notes are annotations that users have put on children, by UID.
	notes map[string]string
	// unowned are children whose owner reference a user has removed, by UID: they
	// stay if their parent is deleted before Setpoint adopts them again.
	unowned map[string]bool
	// rung and dismissed are the bells, by UID, of which handlers were called with
	// success: one that was rung does not go before it is dismissed.
	rung, dismissed map[string]bool
}

func newExpectations() *expectations {
	return &expectations{parents: map[string]bool{}, notes: map[string]string{}, unowned: map[string]bool{}, rung: map[string]bool{}, dismissed: map[string]bool{}}
}

func (l *expectations) update(how func(*expectations)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(l)
}
