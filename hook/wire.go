package hook

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Wire selects the wire form of a hook's requests and responses. The zero value is v1
// for a CompositeController, decoded strictly.
type Wire struct {
	Version        Version
	ControllerType ControllerType
	Decoding       Decoding
	// NoChildren means that the controller declares no children, so responses may omit
	// the list.
	NoChildren bool
}

// ControllerType is the type of the calling controller. It determines field names.
type ControllerType uint8

const (
	// Composite names the fields parent and children.
	Composite ControllerType = iota
	// Decorator names the fields object and attachments. Responses may set labels and
	// annotations on the object.
	Decorator
)

// String returns "composite" or "decorator".
func (f ControllerType) String() string {
	if f == Decorator {
		return "decorator"
	}
	return "composite"
}

func (f ControllerType) parentField() string {
	if f == Decorator {
		return "object"
	}
	return "parent"
}

func (f ControllerType) childrenField() string {
	if f == Decorator {
		return "attachments"
	}
	return "children"
}

// Version is the version of the wire form. It determines the keys of objects.
type Version uint8

const (
	// V1 keys objects by name if the parent is namespaced, and by namespace/name if it
	// is cluster-scoped.
	V1 Version = iota
	// V2 keys every namespaced object by namespace/name.
	V2
)

// String returns "v1" or "v2", as in a controller's spec.
func (v Version) String() string {
	if v == V2 {
		return "v2"
	}
	return "v1"
}

// Decoding is the strictness for responses. No mode takes a misspelled list of children
// for an empty one.
type Decoding uint8

const (
	// Strict requires the list at the core of the response (children or rules) and
	// rejects unknown and duplicate fields.
	Strict Decoding = iota
	// StrictOptional is Metacontroller's strict mode. The list may be absent or null:
	// since unknown fields are rejected, that is no misspelling. It rejects the fields
	// events, conditions and message, which Metacontroller lacks.
	StrictOptional
	// Loose ignores unknown fields; of duplicates, the last wins. The list may be absent
	// if there is no unknown field.
	Loose
	// LooseOptional is Metacontroller's loose mode. The list may be absent or null
	// unless an unknown field resembles its name.
	LooseOptional
)

// String returns the mode's name for messages.
func (d Decoding) String() string {
	switch d {
	case StrictOptional:
		return "strict, children optional"
	case Loose:
		return "loose"
	case LooseOptional:
		return "loose, children optional"
	}
	return "strict"
}

// allowsExtensions reports whether responses may have fields that Metacontroller lacks.
func (d Decoding) allowsExtensions() bool { return d != StrictOptional }

// loose reports whether unknown and duplicate fields are accepted.
func (d Decoding) loose() bool { return d == Loose || d == LooseOptional }

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
