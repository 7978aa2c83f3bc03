package handle

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

// setProgress records what a response returned as progress; nil for none. The digest is that of the
// watched fields after the response.
func (e *entry) setProgress(reason hook.Reason, digest string, progress json.RawMessage) {
	e.clearProgress()
	if progress != nil {
		e.Progress, e.ProgressInput = progressText(progress), progressInput(reason, digest)
	}
}

func (e *entry) clearProgress() { e.Progress, e.ProgressInput = "", "" }

// progressInput identifies what a call is about: progress is of no use for another.
func progressInput(reason hook.Reason, digest string) string { return string(reason) + " " + digest }

// progressOf returns the progress for a call; nil if there is none for its input. Until the response
// is written, the input is still that of the call before.
func (m *handlerMemory) progressOf(c call) json.RawMessage {
	e := m.entry()
	unwritten := m.pendingEntry != nil && m.digestBefore == m.watched && strings.HasPrefix(e.ProgressInput, progressInput(c.reason, ""))
	if e.Progress == "" || e.ProgressInput != progressInput(c.reason, m.watched) && !unwritten {
		return nil
	}
	return json.RawMessage(e.Progress)
}
