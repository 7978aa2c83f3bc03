package handle

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// entry is the record of one handler: digests of what it has handled, never a copy of the
// object.
type entry struct {
	// Digest is the digest of the watched fields that the handler last handled; empty if it
	// never did.
	Digest string `json:"seen,omitempty"`
	// Failed means that the handler gave up on that state.
	Failed bool `json:"failed,omitempty"`
	// HasRevision means that a ControllerRevision has the state of Digest.
	HasRevision bool `json:"kept,omitempty"`
	// OwnedDigest is the digest of the owned objects, for a Drift handler.
	OwnedDigest string `json:"owned,omitempty"`
	// Attempts and Since (Unix seconds) count the failures of a handler with a retry limit.
	Attempts int   `json:"tries,omitempty"`
	Since    int64 `json:"since,omitempty"`
	// InProgress is the digest of an update for which the handler requested another call. At
	// (Unix seconds) is when the update was first seen.
	InProgress      string `json:"under,omitempty"`
	InProgressSince int64  `json:"at,omitempty"`
	// Done means that a Delete handler is done.
	Done bool `json:"done,omitempty"`
}

// handledState has the entries of the handlers by name.
type handledState map[string]entry

// uidEntry is the name of an entry with the digest of the object's UID. A copy of an object
// copies its annotations, but its handlers must treat it as new.
const uidEntry = "~"

// isCurrent reports whether the record needs no change.
func (r handledState) isCurrent(p *Program, m *memory) bool {
	known := 0
	for i := range p.Handlers {
		if m.handlers[i].pendingEntry != nil {
			return false
		}
		if _, is := r[p.Handlers[i].Name]; is {
			known++
		}
	}
	return len(r) == 0 || known > 0 && len(r) == known+1
}

// readHandledState reads the record from a path in the object. An invalid record, or that of
// another object, is empty; see restoreState.
func readHandledState(o *object.Object, namespace ...string) handledState {
	var text string
	field := o.Field(namespace...)
	if field == nil || json.Unmarshal(field, &text) != nil {
		return handledState{}
	}
	var recorded handledState
	if json.Unmarshal([]byte(text), &recorded) != nil || recorded[uidEntry].Digest != uidDigest(o.UID()) {
		return handledState{}
	}
	return recorded
}

func uidDigest(uid string) string { return digest(uid) }

// String returns the record as it is stored; empty for none.
func (r handledState) String() string {
	if len(r) == 0 {
		return ""
	}
	return string(toJSON(r))
}

// withPending returns the record with those pending entries that count, and without the
// entries of removed handlers.
func (r handledState) withPending(p *Program, m *memory, counts func(handler int) bool) handledState {
	if r.isCurrent(p, m) {
		return r
	}
	merged := make(handledState, len(p.Handlers)+1)
	for i := range p.Handlers {
		name := p.Handlers[i].Name
		e := r[name]
		if one := &m.handlers[i]; one.pendingEntry != nil && counts(i) {
			e = *one.pendingEntry
		}
		if e != (entry{}) {
			merged[name] = e
		}
	}
	if len(merged) > 0 {
		merged[uidEntry] = entry{Digest: uidDigest(m.UID())}
	}
	return merged
}
