package hook

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// DecodeResponse decodes the response to a Request. The result aliases data, which must
// not change afterwards. Objects keep their bytes, including white space.
//
// Every error is a *MalformedError. An ambiguous response is an error too: a missing
// list of children must never delete all children.
func DecodeResponse(data []byte, w Wire) (*Response, error) {
	r, out := newReader(data, w.Decoding), &Response{}
	children := requiredList{name: w.ControllerType.childrenField(), required: !w.NoChildren}
	fields := []field{
		{children.name, required(r, &children, &out.Children, r.object)},
		{"status", r.raw(&out.Status)},
		{"resyncAfterSeconds", r.seconds(&out.ResyncAfter)},
		{"finalized", r.boolean(&out.Finalized)},
	}
	if w.ControllerType == Decorator {
		fields = append(fields,
			field{"labels", r.keys(&out.Labels, labelRules)},
			field{"annotations", r.keys(&out.Annotations, annotationRules)},
		)
	}
	if w.Decoding != StrictOptional { // Metacontroller lacks these.
		fields = append(fields, r.reportFields(&out.Events, &out.Conditions, &out.Message)...)
		fields = append(fields, field{"logicVersion", r.logicVersion(&out.LogicVersion)})
	}
	if err := r.documentWithList(&children, fields); err != nil {
		return nil, r.malformed(err)
	}
	return out, nil
}

// maxLogicVersion is how long a logicVersion may be, which is stored for each object.
const maxLogicVersion = 128

func (r *reader) logicVersion(into *string) func() error {
	return optional(r, into, func() error {
		if err := r.text(into)(); err != nil {
			return err
		}
		if len(*into) > maxLogicVersion {
			return r.errorAt("", "must not be longer than %d bytes, has %d", maxLogicVersion, len(*into))
		}
		if i := strings.IndexFunc(*into, isNotPrintableASCII); i >= 0 {
			c, _ := utf8.DecodeRuneInString((*into)[i:])
			return r.errorAt("", "must be printable ASCII, has %+q", c)
		}
		return nil
	})
}

// isNotPrintableASCII reports whether a character may not be in a logicVersion, which is shown in one line of terminals,
// pages and events. The pattern in the schema of the responses says the same.
func isNotPrintableASCII(c rune) bool { return c < ' ' || c > '~' }

// reportFields are what a response reports for the object.
func (r *reader) reportFields(events *[]Event, conditions *[]Condition, message *string) []field {
	return []field{
		{"events", limitedList(r, events, r.event)},
		{"conditions", limitedList(r, conditions, func() (Condition, error) { return r.condition(*conditions) })},
		{"message", optional(r, message, r.text(message))},
	}
}

// object reads an object and requires the fields that identify it.
func (r *reader) object() (json.RawMessage, error) {
	var id identity
	start, err := r.openObject(func(name []byte) error { return r.identityMember(name, &id) })
	if err != nil {
		return nil, err
	}
	if missing := id.missing(); missing != "" {
		return nil, r.errorAt(missing, "required")
	}
	return r.since(start), nil
}

// identityMember reads a field of an object and records in id whether it identifies the
// object.
func (r *reader) identityMember(name []byte, id *identity) error {
	switch string(name) {
	case "apiVersion":
		return r.nonEmptyString(&id.apiVersion)
	case "kind":
		return r.nonEmptyString(&id.kind)
	case "metadata":
		id.name = false
		return r.members(func(name []byte) error {
			if string(name) == "name" {
				return r.nonEmptyString(&id.name)
			}
			return r.skip()
		})
	}
	return r.skip()
}

// identity records which of the identifying fields an object has.
type identity struct{ apiVersion, kind, name bool }

func (id identity) missing() string {
	switch {
	case !id.apiVersion:
		return ".apiVersion"
	case !id.kind:
		return ".kind"
	case !id.name:
		return ".metadata.name"
	}
	return ""
}

// nonEmptyString reads a string, sets isSet, and rejects the empty string.
func (r *reader) nonEmptyString(isSet *bool) error {
	quoted, err := r.quotedString()
	if err != nil {
		return err
	}
	*isSet = len(quoted) > len(`""`)
	if !*isSet {
		return r.errorAt("", "must not be empty")
	}
	return nil
}
