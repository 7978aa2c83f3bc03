// Package lasthandled is the record on an object of what each handler has handled.
//
// It has the schema of the record, where it is stored, how older forms are read, and what of it can be compared. It
// decides nothing: the controllers of handlers do.
package lasthandled

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// StatusField is the field of the status that has the records by controller name, if the schema of the kind has the
// field. A status request cannot change annotations, nor the other way round, so a record in the status saves one of
// two requests.
const StatusField = "setpointHandledBy"

// AnnotationPrefix begins the annotations with records, NamePrefix their names after the domain.
const (
	AnnotationPrefix = "setpoint.dev/" + NamePrefix
	NamePrefix       = "handled-by-"
)

// Record has the entries of the handlers by name.
type Record map[string]Entry

// Object is the name of the entry about the object itself, with the digest of its UID. A copy of an object copies its
// annotations, but its handlers must treat it as new.
const Object = "~"

// read reads a record from a path in the object. An invalid record, or that of another object, is empty.
func read(o *object.Object, path []string) Record {
	var text string
	field := o.Field(path...)
	if field == nil || json.Unmarshal(field, &text) != nil {
		return Record{}
	}
	recorded := decode(text)
	if recorded[Object].Digest != Digest(o.UID()) {
		return Record{}
	}
	return recorded
}

// namesBefore1 has the names of fields by those that they had before records had a version.
var namesBefore1 = map[string]string{
	"seen": "digest", "owned": "ownedDigest", "tries": "attempts", "since": "failingSince",
	"under": "inProgress", "at": "inProgressSince", "of": "progressInput",
}

// decode reads a record of this version, or one without a version, which is not rewritten for that alone.
func decode(text string) Record {
	var recorded Record
	switch {
	case json.Unmarshal([]byte(text), &recorded) != nil:
		return nil
	case recorded[Object].Version > 0:
		return recorded
	}
	var entries map[string]map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &entries) // It is a map of objects.
	for _, e := range entries {
		for previous, name := range namesBefore1 {
			if value, is := e[previous]; is {
				e[name] = value
			}
		}
	}
	if own := entries[Object]; own != nil {
		own["version"] = Encode(Version)
	}
	if json.Unmarshal(Encode(entries), &recorded) != nil {
		return nil
	}
	return recorded
}

// String returns the record as it is stored.
func (r Record) String() string { return string(Encode(r)) }

// TakeOver adds the entries of a previous record.
func (r Record) TakeOver(previous Record) {
	for name, e := range previous {
		if _, own := r[name]; !own {
			r[name] = e
		}
	}
}

// States returns the handled states by their digests.
func (r Record) States() map[string]json.RawMessage {
	var states map[string]json.RawMessage
	_ = json.Unmarshal([]byte(r[Object].States), &states) // What is no object has none.
	return states
}

// State returns the watched fields with a digest; nil if the record does not have them.
func (r Record) State(digest string) map[string]any {
	if part := object.DecodeOrEmpty(r.States()[digest]); Digest(part) == digest {
		return part
	}
	return nil
}

// Rename gives the entry of a handler's previous name to the handler, unless it has one. The next write of the record
// stores the new name.
func (r Record) Rename(previous, name string) {
	e, recorded := r[previous]
	if _, renamed := r[name]; recorded && !renamed {
		r[name] = e
	}
	delete(r, previous)
}

// Location is where the record of a controller is: in an annotation or, by the key, in the status.
type Location struct{ Annotation, StatusKey string }

// InStatus returns the path of the record in the status of an object.
func (l Location) InStatus() []string { return []string{"status", StatusField, l.StatusKey} }

// InAnnotation returns the path of the record in the annotations of an object.
func (l Location) InAnnotation() []string { return []string{"metadata", "annotations", l.Annotation} }

// Read reads the record of an object from the status, else from the annotation, which an earlier release may have
// written.
func (l Location) Read(o *object.Object) Record {
	if state := l.ReadStatus(o); len(state) > 0 {
		return state
	}
	return read(o, l.InAnnotation())
}

// ReadStatus reads the record in the status.
func (l Location) ReadStatus(o *object.Object) Record { return read(o, l.InStatus()) }

// Removal returns patches of the annotations and of the records in the status that remove those of previous controllers;
// nil for none.
func Removal(o *object.Object, previous []Location) (annotations, status map[string]any) {
	for _, l := range previous {
		// A copy of another object's record is left: what copied it would do so again.
		if len(read(o, l.InAnnotation())) > 0 {
			annotations = object.CombinePatches(annotations, map[string]any{l.Annotation: nil})
		}
		if l.StatusKey != "" && o.Field(l.InStatus()...) != nil {
			status = object.CombinePatches(status, map[string]any{l.StatusKey: nil})
		}
	}
	return annotations, status
}

// IsPath reports whether the path of a change in an object is that of a record.
func IsPath(path string) bool {
	return strings.HasPrefix(path, `metadata.annotations["`+AnnotationPrefix) || strings.HasPrefix(path, "status."+StatusField)
}

// Version is the version of the records that are written.
const Version = 1

// Entry is the record of one handler, or that of the Object.
type Entry struct {
	// Version is that of the record, in the entry of the Object.
	Version int `json:"version,omitempty"`
	// Digest is the digest of the watched fields that the handler last handled; empty if it never did.
	Digest string `json:"digest,omitempty"`
	// Failed means that the handler gave up on that state.
	Failed bool `json:"failed,omitempty"`
	// Dropped means that its response for that state was dropped before it was written, for a call that has not
	// succeeded since.
	Dropped bool `json:"dropped,omitempty"`
	Edition
	// OwnedDigest is the digest of the owned objects that handlers applied, for a Drift handler. Applied names these
	// objects, in the entry of the Object.
	OwnedDigest string `json:"ownedDigest,omitempty"`
	Applied     string `json:"applied,omitempty"`
	// States has, in the entry of the Object, handled states by their digests, for handlers that need them after a
	// restart.
	States JSON `json:"states,omitempty"`
	// Attempts and Since (Unix seconds) count the failures of a handler with a retry limit.
	Attempts int   `json:"attempts,omitempty"`
	Since    int64 `json:"failingSince,omitempty"`
	// InProgress is the digest of an update for which the handler requested another call, and InProgressSince
	// (Unix seconds) when the update was first seen.
	InProgress      string `json:"inProgress,omitempty"`
	InProgressSince int64  `json:"inProgressSince,omitempty"`
	// Done means that a Delete handler is done.
	Done bool `json:"done,omitempty"`
	// Progress is that of a call in progress, and ProgressInput the reason and the digest of its input.
	Progress      JSON   `json:"progress,omitempty"`
	ProgressInput string `json:"progressInput,omitempty"`
}

// Edition tells an object that was edited, and whose edit was then taken back, from one that was never edited. The
// digest cannot: a handler that was called for the edit, and did a part of the work, would not see it end.
type Edition struct {
	// Generation is that of the object with the digest; 0 if unknown, or if the handler watches nothing that it counts.
	Generation int64 `json:"generation,omitempty"`
	// Counted is a digest of all fields that the generation counts, for a handler that watches some of them.
	Counted string `json:"counted,omitempty"`
}

// JSON is a value as JSON; empty for none. Unlike a json.RawMessage it can be compared.
type JSON string

// MarshalJSON returns the text.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// UnmarshalJSON keeps the text.
func (j *JSON) UnmarshalJSON(data []byte) error {
	*j = JSON(data)
	return nil
}

// SetProgress records what a response to a call returned as progress; nil for none. The digest is that of the state
// that the handler has seen in all of its calls.
func (e *Entry) SetProgress(progress json.RawMessage, reason hook.Reason, digest string) {
	e.Progress, e.ProgressInput = JSON(progress), ""
	if len(progress) > 0 {
		e.ProgressInput = string(reason) + " " + digest
	}
}

// MoveProgress changes the state to which the progress belongs, if there is any.
func (e *Entry) MoveProgress(digest string) {
	reason, _, _ := strings.Cut(e.ProgressInput, " ")
	e.SetProgress(json.RawMessage(e.Progress), hook.Reason(reason), digest)
}

// ClearProgress removes the progress.
func (e *Entry) ClearProgress() { e.SetProgress(nil, "", "") }

// HasProgress reports whether calls with a reason have progress.
func (e *Entry) HasProgress(reason hook.Reason) bool {
	return e.Progress != "" && strings.HasPrefix(e.ProgressInput, string(reason)+" ")
}

// ProgressDigest returns the digest of the state to which the progress belongs; empty without progress.
func (e *Entry) ProgressDigest() string {
	_, digest, _ := strings.Cut(e.ProgressInput, " ")
	return digest
}

const deletionPrefix = "-"

// DeletionDigest returns the digest of an object in deletion.
func DeletionDigest(watched string) string { return deletionPrefix + watched }

// CutDeletion returns the digest of the watched fields, also in that of an object in deletion. A digest may begin with the
// prefix itself.
func CutDeletion(digest string) string {
	if len(digest) > base64.RawURLEncoding.EncodedLen(digestBytes) {
		return strings.TrimPrefix(digest, deletionPrefix)
	}
	return digest
}

const digestBytes = 9

// Digest returns a short hash of a tree. It is the same in every process, because members are written in order.
func Digest(of any) string {
	sum := sha256.Sum256(Encode(of))
	return base64.RawURLEncoding.EncodeToString(sum[:digestBytes])
}

// Encode returns a decoded value as JSON.
func Encode(value any) json.RawMessage {
	text, _ := json.Marshal(value) //nolint:errchkjson // Decoded JSON always encodes.
	return text
}
