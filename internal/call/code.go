package call

import (
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Code identifies the code that a call ran.
type Code struct {
	// Digest is equal for equal code. It is empty if Setpoint cannot see the code, such as behind most webhooks.
	Digest string `json:"digest"`
	// Since is when the code was loaded, or first seen.
	Since time.Time `json:"since"`
	// Source is the text of inline code, if it is asked for and still kept.
	Source string `json:"source,omitempty"`
	// Holder is the object that has the text of inline code: who may read it may read the text.
	Holder object.Ref `json:"holder,omitzero"`

	text *atomic.Pointer[string]
}

// WithSource returns the code with its text.
func (c Code) WithSource() Code {
	if c.text != nil {
		if text := c.text.Load(); text != nil {
			c.Source = *text
		}
	}
	return c
}

// Keep keeps a text for WithSource.
func (c *Code) Keep(text string) {
	c.text = &atomic.Pointer[string]{}
	c.text.Store(&text)
}

// Forget drops the text, also for the records of calls that ran the code.
func (c *Code) Forget() { c.text.Store(nil) }
