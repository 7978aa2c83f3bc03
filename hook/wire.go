package hook

import "time"

// Version is a version of the wire form. It decides by which key an object
// goes within its group.
type Version uint8

const (
	// V1 keys the objects of a namespaced parent by bare name and those of a
	// cluster-scoped parent by namespace/name.
	V1 Version = iota
	// V2 keys every namespaced object by namespace/name.
	V2
)

// String is "v1" or "v2", as it is written in a controller's spec.
func (v Version) String() string {
	if v == V2 {
		return "v2"
	}
	return "v1"
}

// Decoding is how much a reply may leave to the reader's goodwill. No reply is
// ever read as "no children" by accident, whichever is chosen.
type Decoding uint8

const (
	// Strict wants children to be given, no field that is not known, and no
	// field twice.
	Strict Decoding = iota
	// StrictOptional is Strict but that children may be left out or null: with
	// no unknown field beside it, that cannot be a misspelling.
	StrictOptional
	// Loose passes over fields that it does not know and takes the last of
	// two, as long as children is given once, or is left out with nothing
	// beside that might be a misspelling of it.
	Loose
)

// String is the name of the mode, for messages.
func (d Decoding) String() string {
	switch d {
	case StrictOptional:
		return "strict, children optional"
	case Loose:
		return "loose"
	}
	return "strict"
}

// maxResync keeps a nonsensical resyncAfterSeconds from overflowing a clock.
const maxResync = 365 * 24 * time.Hour

// The fields of a reply.
const (
	fieldStatus    = "status"
	fieldChildren  = "children"
	fieldResync    = "resyncAfterSeconds"
	fieldFinalized = "finalized"
)

// replyFields is what a misspelt field is compared with.
func replyFields() []string {
	return []string{fieldChildren, fieldStatus, fieldResync, fieldFinalized}
}
