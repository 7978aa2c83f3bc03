package lasthandled

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
)

// Entry is the record of one handler: digests of what it has handled, never a copy of the object.
type Entry struct {
	// Digest is the digest of the watched fields that the handler last handled; empty if it
	// never did.
	Digest string `json:"seen,omitempty"`
	// Failed means that the handler gave up on that state.
	Failed bool `json:"failed,omitempty"`
	// Dropped means that its response for that state was dropped before it was written, for a call that has not
	// succeeded since.
	Dropped bool `json:"dropped,omitempty"`
	Edition
	// HasRevision means that a ControllerRevision has the state of Digest.
	HasRevision bool `json:"kept,omitempty"`
	// OwnedDigest is the digest of the owned objects that handlers applied, for a Drift handler. Applied names these
	// objects, in the entry of the Object.
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
	Progress      Progress `json:"progress,omitempty"`
	ProgressInput string   `json:"of,omitempty"`
}

// Edition tells an object that was edited, and whose edit was then taken back, from one that was never edited. The
// digest cannot: a handler that was called for the edit, and did a part of the work, would not see it end.
type Edition struct {
	// Generation is that of the object with the digest; 0 if unknown, or if the handler watches nothing that it counts.
	Generation int64 `json:"generation,omitempty"`
	// Counted is a digest of all fields that the generation counts, for a handler that watches some of them.
	Counted string `json:"counted,omitempty"`
}

// Progress is the progress of a call as JSON; empty for none. Unlike a json.RawMessage it can be
// compared.
type Progress string

// MarshalJSON returns the text.
func (p Progress) MarshalJSON() ([]byte, error) { return []byte(p), nil }

// UnmarshalJSON keeps the text.
func (p *Progress) UnmarshalJSON(data []byte) error {
	*p = Progress(data)
	return nil
}

// SetProgress records what a response to a call returned as progress; nil for none. The digest is that of the state
// that the handler has seen in all of its calls.
func (e *Entry) SetProgress(progress json.RawMessage, reason hook.Reason, digest string) {
	e.ClearProgress()
	if progress != nil {
		e.Progress, e.ProgressInput = Progress(progress), progressInput(reason, digest)
	}
}

// MoveProgress changes the state to which the progress belongs, if there is any.
func (e *Entry) MoveProgress(digest string) {
	if e.Progress != "" {
		reason, _, _ := strings.Cut(e.ProgressInput, " ")
		e.ProgressInput = progressInput(hook.Reason(reason), digest)
	}
}

// ClearProgress removes the progress.
func (e *Entry) ClearProgress() { e.Progress, e.ProgressInput = "", "" }

// progressInput has the reason of the calls with a progress, and the digest of its state.
func progressInput(reason hook.Reason, digest string) string { return string(reason) + " " + digest }

// HasProgress reports whether calls with a reason have progress.
func (e *Entry) HasProgress(reason hook.Reason) bool {
	return e.Progress != "" && strings.HasPrefix(e.ProgressInput, progressInput(reason, ""))
}

// ProgressDigest returns the digest of the state to which the progress belongs.
func (e *Entry) ProgressDigest() string {
	_, digest, _ := strings.Cut(e.ProgressInput, " ")
	return digest
}

// LatestDigest returns the digest of the state that an entry has seen last.
func (e *Entry) LatestDigest() string {
	if e.Progress != "" {
		return e.ProgressDigest()
	}
	return e.Digest
}

// deletionPrefix is that of the digest of an object in deletion.
const deletionPrefix = "-"

// DeletionDigest returns the digest of an object in deletion.
func DeletionDigest(watched string) string { return deletionPrefix + watched }

// CutDeletion returns the digest of the watched fields in that of an object in deletion.
func CutDeletion(digest string) string { return strings.TrimPrefix(digest, deletionPrefix) }

// digestBytes is the length of a truncated hash.
const digestBytes = 9

// Digest returns a short hash of a tree. It is the same in every process, because members are
// written in order.
func Digest(of any) string {
	sum := sha256.Sum256(toJSON(of))
	return base64.RawURLEncoding.EncodeToString(sum[:digestBytes])
}

// toJSON returns a decoded value as JSON.
func toJSON(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		return nil // Decoded JSON always encodes.
	}
	return text
}
