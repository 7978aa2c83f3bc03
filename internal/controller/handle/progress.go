package handle

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// progressText is the progress of a call as JSON; empty for none. Unlike a json.RawMessage it can be
// compared.
type progressText string

// MarshalJSON returns the text.
func (p progressText) MarshalJSON() ([]byte, error) { return []byte(p), nil }

// UnmarshalJSON keeps the text.
func (p *progressText) UnmarshalJSON(data []byte) error {
	*p = progressText(data)
	return nil
}

// setProgress records what a response returned as progress; nil for none. The digest is that of the
// state to which the progress belongs.
func (e *entry) setProgress(reason hook.Reason, digest string, progress json.RawMessage) {
	e.clearProgress()
	if progress != nil {
		e.Progress, e.ProgressInput = progressText(progress), progressInput(reason, digest)
	}
}

// moveProgress changes the state to which the progress belongs, if there is any.
func (e *entry) moveProgress(digest string) {
	if e.Progress != "" {
		reason, _, _ := strings.Cut(e.ProgressInput, " ")
		e.ProgressInput = progressInput(hook.Reason(reason), digest)
	}
}

func (e *entry) clearProgress() { e.Progress, e.ProgressInput = "", "" }

// progressInput has the reason of the calls with a progress, and the digest of its state.
func progressInput(reason hook.Reason, digest string) string { return string(reason) + " " + digest }

// hasProgress reports whether calls with a reason have progress.
func (e *entry) hasProgress(reason hook.Reason) bool {
	return e.Progress != "" && strings.HasPrefix(e.ProgressInput, progressInput(reason, ""))
}

// progressDigest returns the digest of the state to which the progress belongs.
func (e *entry) progressDigest() string {
	_, digest, _ := strings.Cut(e.ProgressInput, " ")
	return digest
}

// latestDigest returns the digest of the state that an entry has seen last.
func (e *entry) latestDigest() string {
	if e.Progress != "" {
		return e.progressDigest()
	}
	return e.Digest
}

// progressOf returns the progress for a call; nil if there is none for its reason.
func (m *handlerMemory) progressOf(c call) json.RawMessage {
	if e := m.entry(); e.hasProgress(c.reason) {
		return json.RawMessage(e.Progress)
	}
	return nil
}

// basis is the state that calls with progress count from: that of the first of them, with what the
// handler itself has changed since. Once the handler is done, the basis is recorded, and not what
// other clients have changed meanwhile: the steps before have not seen it.
type basis struct {
	digest string
	// object is nil after a restart, unless the object is still in this state.
	object *object.Object
}

// basisOf returns the basis of a call: the current state, unless there is progress and another client
// has changed the object since. Events come between the calls with progress.
func (m *handlerMemory) basisOf(c call) (b basis, outdated bool) {
	e := m.entry()
	outdated = (e.hasProgress(c.reason) || c.reason == hook.ReasonEvent && e.Progress != "") && !m.isAt(e.progressDigest())
	if outdated {
		return basis{e.progressDigest(), m.progressObject}, true
	}
	return basis{m.watched, c.object}, false
}

// with returns the basis with what a response changes.
func (b basis) with(h *Handler, response *hook.HandlerResponse) basis {
	if b.object == nil {
		return b
	}
	if made := h.withResponse(b.object, response); made != nil {
		return basis{digest(h.watchedFields(made)), made}
	}
	return b
}
