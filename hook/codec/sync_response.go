package codec

import (
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/hook"
)

// DecodeSyncResponse decodes the response to a hook.Request. The result aliases data, which must
// not change afterwards. Objects keep their bytes, including white space.
//
// Every error is a *hook.MalformedError. An ambiguous response is an error too: a missing
// list of children must never delete all children.
func DecodeSyncResponse(data []byte, w Wire) (*hook.Response, error) {
	r, out := newReader(data, w.Decoding), &hook.Response{}
	_, name := fieldsOf(w.ControllerType)
	children := requiredList{name: name, required: !w.NoChildren}
	fields := []field{
		{children.name, required(r, &children, &out.Children, r.object)},
		{"status", &out.Status},
		{"resyncAfterSeconds", &out.ResyncAfter},
		{"finalized", &out.Finalized},
	}
	if w.ControllerType == hook.Decorator {
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
		if err := r.text(into); err != nil {
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
