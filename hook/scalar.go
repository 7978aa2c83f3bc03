package hook

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// optionalString reads a string into what it is about; null leaves that as it is.
func (r *reader) optionalString(into *string) error {
	if r.null() {
		return r.skip()
	}
	return r.string(into)
}

// string is word without null.
func (r *reader) string(into *string) error {
	quoted, err := r.quotedString()
	if err != nil {
		return err
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	*into = string(text)
	return err
}

// quotedString reads a string and returns it with its quotes, to be looked at before
// anything else is read.
func (r *reader) quotedString() ([]byte, error) {
	value, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if value.Kind() != '"' {
		return nil, r.errorAt("", "must be a string, is %s", describe(value.Kind()))
	}
	return value, nil
}

// seconds reads a time from now; null is none.
func (r *reader) seconds(into *time.Duration) error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '0':
	case 'n':
		*into = 0
		return nil
	default:
		return r.errorAt("", "must be a number, is %s", describe(value.Kind()))
	}
	// The grammar has been checked; out of range is an infinity, which is fine.
	seconds, _ := strconv.ParseFloat(string(value), 64)
	if seconds < 0 && r.decoding == Strict {
		return r.errorAt("", "must not be negative")
	}
	*into = durationOf(seconds)
	return nil
}

// maxDelay keeps a nonsensical number of seconds from overflowing a clock.
const maxDelay = 365 * 24 * time.Hour

// durationOf keeps to what a timer can hold; a negative wish is none.
func durationOf(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), maxDelay.Seconds()) * float64(time.Second))
}

// boolean reads true or false; null is false.
func (r *reader) boolean(into *bool) error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case 't', 'f', 'n':
		*into = value.Kind() == 't'
		return nil
	}
	return r.errorAt("", "must be true or false, is %s", describe(value.Kind()))
}
