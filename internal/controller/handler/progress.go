package handler

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
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

// setProgress records what a response returned as progress; nil for none. It belongs to the state
// that the handler has seen in all of its calls.
func (m *handlerMemory) setProgress(e *entry, c call, seen basis, progress json.RawMessage) {
	e.clearProgress()
	if progress != nil {
		e.Progress, e.ProgressInput = progressText(progress), progressInput(c.reason, seen.digest)
		m.progressObject = seen.object
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
