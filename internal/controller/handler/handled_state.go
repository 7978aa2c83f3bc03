package handler

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
	// Dropped means that its response for that state was dropped before it was written, for a call that has not
	// succeeded since.
	Dropped bool `json:"dropped,omitempty"`
	edition
	// HasRevision means that a ControllerRevision has the state of Digest.
	HasRevision bool `json:"kept,omitempty"`
	// OwnedDigest is the digest of the owned objects that handlers applied, for a Drift handler. Applied names these
	// objects, in the entry with the UID.
	OwnedDigest string `json:"owned,omitempty"`
	Applied     string `json:"applied,omitempty"`
	// Attempts and Since (Unix seconds) count the failures of a handler with a retry limit.
	Attempts int   `json:"tries,omitempty"`
	Since    int64 `json:"since,omitempty"`
	// InProgress is the digest of an update for which the handler requested another call. At
	// (Unix seconds) is when the update was first seen.
	InProgress      string `json:"under,omitempty"`
	InProgressSince int64  `json:"at,omitempty"`
	// Done means that a Delete handler is done.
	Done bool `json:"done,omitempty"`
	// Progress is that of a call in progress, and ProgressInput the reason and the digest of its
	// input.
	Progress      progressText `json:"progress,omitempty"`
	ProgressInput string       `json:"of,omitempty"`
}

// handledState has the entries of the handlers by name.
type handledState map[string]entry

// uidEntry is the name of an entry with the digest of the object's UID. A copy of an object
// copies its annotations, but its handlers must treat it as new.
const uidEntry = "~"

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

// stateWith returns the record to store once the given responses are written: with pending
// entries, except those of handlers with other pending responses, and without the entries of
// removed handlers.
func (r *run) stateWith(applied []*pendingResponse) handledState {
	state := handledState{}
	for _, h := range r.memory.handlers {
		e := r.writtenEntry(h, applied)
		if r.memory.hasPending(h, applied) || h.pendingEntry == nil && r.isReleased() {
			e = r.storedState[h.Name]
		}
		if e != (entry{}) {
			state[h.Name] = e
		}
	}
	if len(state) > 0 {
		state[uidEntry] = entry{Digest: uidDigest(r.Stored.UID()), Applied: r.appliedText()}
	}
	return state
}
