package soak

import "sync"

// ledger is what those who take part remember for the check.
type ledger struct {
	mu sync.Mutex
	// kept are parents that were made and that nobody has asked to delete.
	kept map[string]bool
	// notes are annotations that users have put on children, by UID.
	notes map[string]string
	// freed are children from which somebody has taken the owner, by UID: when
	// their parent goes before it has taken them in again, they stay.
	freed map[string]bool
	// rung and dismissed are the bells, by UID, of which handlers were called with
	// success: one that was rung does not go before it is dismissed.
	rung, dismissed map[string]bool
}

func newLedger() *ledger {
	return &ledger{kept: map[string]bool{}, notes: map[string]string{}, freed: map[string]bool{}, rung: map[string]bool{}, dismissed: map[string]bool{}}
}

func (l *ledger) write(how func(*ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(l)
}
