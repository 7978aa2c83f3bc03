package hook

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// text reads a string; null leaves the target unchanged.
func (r *reader) text(into *string) func() error {
	return func() (err error) {
		if r.null() {
			return r.skip()
		}
		*into, err = r.string()
		return err
	}
}

// string reads a string and rejects null.
func (r *reader) string() (string, error) {
	quoted, err := r.quotedString()
	if err != nil {
		return "", err
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return string(text), err
}

// given is the text at a path below the value read last.
type given struct{ below, text string }

// require rejects a value without one of these texts.
func (r *reader) require(all ...given) error {
	for _, one := range all {
		if one.text == "" {
			return r.errorAt(one.below, "required")
		}
	}
	return nil
}

// quotedString returns a string with its quotes. The next read invalidates it.
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

// seconds reads a delay in seconds; null means none.
func (r *reader) seconds(into *time.Duration) func() error {
	return func() error {
		value, err := r.dec.ReadValue()
		switch {
		case err != nil:
			return err
		case value.Kind() == 'n':
			*into = 0
			return nil
		case value.Kind() != '0':
			return r.errorAt("", "must be a number, is %s", describe(value.Kind()))
		}
		// The decoder checked the syntax. ParseFloat returns infinity when out of range,
		// which durationOf clamps.
		seconds, _ := strconv.ParseFloat(string(value), 64)
		if seconds < 0 && r.decoding == Strict {
			return r.errorAt("", "must not be negative")
		}
		*into = durationOf(seconds)
		return nil
	}
}

// maxDelay clamps delays, so that adding one to a time cannot overflow.
const maxDelay = 365 * 24 * time.Hour

// durationOf converts seconds, clamped to the range from 0 to maxDelay.
func durationOf(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), maxDelay.Seconds()) * float64(time.Second))
}

// boolean reads true or false; null means false.
func (r *reader) boolean(into *bool) func() error {
	return func() error {
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
}
