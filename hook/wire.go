package hook

// Wire is how a hook's requests and responses are written. The zero value is
// version v1 for a composite, read strictly.
type Wire struct {
	Version        Version
	ControllerType ControllerType
	Decoding       Decoding
	// NoChildren says that the controller declares no children: a response
	// without the list of them can lose none.
	NoChildren bool
}

// ControllerType is whom a hook serves. It decides what things are called.
type ControllerType uint8

const (
	// Composite speaks of a parent and its children.
	Composite ControllerType = iota
	// Decorator speaks of an object and its attachments. Its replies may set
	// labels and annotations of the object.
	Decorator
)

// String is "composite" or "decorator".
func (f ControllerType) String() string {
	if f == Decorator {
		return "decorator"
	}
	return "composite"
}

// parentField and children are the words of the form for them.
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
	// Strict wants the list that the reply is about (of children, or of rules)
	// to be given, no field that is not known, and no field twice.
	Strict Decoding = iota
	// StrictOptional is what Metacontroller calls strict. The list may be left
	// out or null: with no unknown field beside it, that cannot be a
	// misspelling. The fields that Metacontroller does not know (events,
	// conditions and message) are unknown.
	StrictOptional
	// Loose passes over fields that it does not know and takes the last of
	// two, as long as that list is given, or is left out with nothing
	// beside it that is unknown.
	Loose
	// LooseOptional is what Metacontroller calls loose. The list may be left
	// out or null, unless an unknown field beside it resembles its name.
	LooseOptional
)

// String is the name of the mode, for messages.
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

// allowsExtensions says whether replies may have the fields that Metacontroller does
// not know.
func (d Decoding) allowsExtensions() bool { return d != StrictOptional }

// loose says that unknown fields are passed over, and the last of two counts.
func (d Decoding) loose() bool { return d == Loose || d == LooseOptional }
