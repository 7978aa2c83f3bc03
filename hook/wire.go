package hook

import (
	"bytes"
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
func (f ControllerType) String() string        { return f.word("composite", "decorator") }
func (f ControllerType) parentField() string   { return f.word("parent", "object") }
func (f ControllerType) childrenField() string { return f.word("children", "attachments") }

func (f ControllerType) word(composite, decorator string) string {
	if f == Decorator {
		return decorator
	}
	return composite
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

// loose reports whether unknown and duplicate fields are accepted.
func (d Decoding) loose() bool { return d == Loose || d == LooseOptional }

// WithoutMark returns a response without a byte order mark at its beginning, which some languages write by themselves.
func WithoutMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }
