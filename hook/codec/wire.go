// Package codec is the JSON wire form of the requests and responses of hooks, in its versions v1 and v2.
//
// Package internal/call and other transports write requests and read responses with it. What the requests and responses
// mean is in package hook.
package codec

import (
	"bytes"

	"github.com/setpoint-dev/setpoint/hook"
)

// Wire selects the wire form of a hook's requests and responses. The zero value is v1
// for a CompositeController, decoded strictly.
type Wire struct {
	Version        hook.Version
	ControllerType hook.ControllerType
	Decoding       Decoding
	// NoChildren means that the controller declares no children, so responses may omit
	// the list.
	NoChildren bool
}

// fieldsOf returns the fields of a request whose names depend on the type of the controller.
func fieldsOf(t hook.ControllerType) (parent, children string) {
	if t == hook.Decorator {
		return "object", "attachments"
	}
	return "parent", "children"
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

// loose reports whether unknown and duplicate fields are accepted.
func (d Decoding) loose() bool { return d == Loose || d == LooseOptional }

// WithoutMark returns a response without a byte order mark at its beginning, which some languages write by themselves.
func WithoutMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }
