package react

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// entry is what is recorded of one handler: what it has dealt with, never a copy
// of anything.
type entry struct {
	// Seen is the digest of what the handler watches, as it last dealt with it;
	// empty if it never did.
	Seen string `json:"seen,omitempty"`
	// Failed says that it gave up on that.
	Failed bool `json:"failed,omitempty"`
	// Kept says that a revision keeps what Seen is the digest of.
	Kept bool `json:"kept,omitempty"`
	// Owned is the digest of the owned objects, for a handler of drift.
	Owned string `json:"owned,omitempty"`
	// Tries and Since, in seconds of Unix time, are those of a handler that is
	// failing, if it has a limit.
	Tries int   `json:"tries,omitempty"`
	Since int64 `json:"since,omitempty"`
	// Under is the digest of an update that the handler is at work on: it asked to be
	// told of it again. At, in seconds of Unix time, is since when that was seen.
	Under string `json:"under,omitempty"`
	At    int64  `json:"at,omitempty"`
	// Done says that a Delete handler has done its work.
	Done bool `json:"done,omitempty"`
}

// record is what is recorded of the handlers, by name.
type record map[string]entry

// self is the name under which a record says of which object it is, as a digest of
// its UID. Who copies an object copies its annotations: to the handlers, the copy
// is new.
const self = "~"

// stands says that there is nothing to add to a record, nor to leave out.
func (r record) stands(p *Program, m *memory) bool {
	known := 0
	for i := range p.Handlers {
		if m.handlers[i].pending != nil {
			return false
		}
		if _, is := r[p.Handlers[i].Name]; is {
			known++
		}
	}
	return len(r) == 0 || known > 0 && len(r) == known+1
}

// readRecord reads the record that stands somewhere in an object. One that was
// spoilt or removed by hand, or that is another object's, says that nothing was
// dealt with; see restore.
func readRecord(o *object.Object, place ...string) record {
	var text string
	field := o.Field(place...)
	if field == nil || json.Unmarshal(field, &text) != nil {
		return record{}
	}
	var recorded record
	if json.Unmarshal([]byte(text), &recorded) != nil || recorded[self].Seen != identity(o.UID()) {
		return record{}
	}
	return recorded
}

// identity is the digest of a UID.
func identity(uid string) string { return digest(uid) }

// String is the record as it is kept; empty for none.
func (r record) String() string {
	if len(r) == 0 {
		return ""
	}
	return string(textOf(r))
}

// with is the record with the entries that are pending in a memory, as far as
// they count, and without those of handlers that the program does not have any
// more.
func (r record) with(p *Program, m *memory, counts func(handler int) bool) record {
	if r.stands(p, m) {
		return r
	}
	merged := make(record, len(p.Handlers)+1)
	for i := range p.Handlers {
		name := p.Handlers[i].Name
		e := r[name]
		if one := &m.handlers[i]; one.pending != nil && counts(i) {
			e = *one.pending
		}
		if e != (entry{}) {
			merged[name] = e
		}
	}
	if len(merged) > 0 {
		merged[self] = entry{Seen: identity(m.uid)}
	}
	return merged
}
