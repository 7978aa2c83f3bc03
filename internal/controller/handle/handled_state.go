package handle

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// entry is what is recorded of one handler: what it has dealt with, never a copy
// of anything.
type entry struct {
	// Digest is the digest of what the handler watches, as it last dealt with it;
	// empty if it never did.
	Digest string `json:"seen,omitempty"`
	// Failed says that it gave up on that.
	Failed bool `json:"failed,omitempty"`
	// HasRevision says that a revision keeps what Seen is the digest of.
	HasRevision bool `json:"kept,omitempty"`
	// OwnedDigest is the digest of the owned objects, for a handler of drift.
	OwnedDigest string `json:"owned,omitempty"`
	// Attempts and Since, in seconds of Unix time, are those of a handler that is
	// failing, if it has a limit.
	Attempts int   `json:"tries,omitempty"`
	Since    int64 `json:"since,omitempty"`
	// InProgress is the digest of an update that the handler is at work on: it asked to be
	// told of it again. At, in seconds of Unix time, is since when that was seen.
	InProgress      string `json:"under,omitempty"`
	InProgressSince int64  `json:"at,omitempty"`
	// Done says that a Delete handler has done its work.
	Done bool `json:"done,omitempty"`
}

// handledState is what is recorded of the handlers, by name.
type handledState map[string]entry

// uidEntry is the name under which a record says of which object it is, as a digest of
// its UID. Who copies an object copies its annotations: to the handlers, the copy
// is new.
const uidEntry = "~"

// isCurrent says that there is nothing to add to a record, nor to leave out.
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

// readHandledState reads the record that stands somewhere in an object. One that was
// spoilt or removed by hand, or that is another object's, says that nothing was
// dealt with; see restore.
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

// uidDigest is the digest of a UID.
func uidDigest(uid string) string { return digest(uid) }

// String is the record as it is kept; empty for none.
func (r handledState) String() string {
	if len(r) == 0 {
		return ""
	}
	return string(toJSON(r))
}

// withPending is the record with the entries that are pending in a memory, as far as
// they count, and without those of handlers that the program does not have any
// more.
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
