package codec

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/setpoint-dev/setpoint/hook"
)

// DecodeReviewResponse decodes the response to a hook.ReviewRequest. The result aliases data,
// which must not change afterwards.
//
// The field allowed is required, so that neither an empty response nor a misspelled
// field allows a change. Every error is a *hook.MalformedError.
func DecodeReviewResponse(data []byte, d Decoding) (*hook.ReviewResponse, error) {
	r := reviewResponseReader{reader: newReader(data, d), out: &hook.ReviewResponse{}}
	if err := r.decode(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

type reviewResponseReader struct {
	*reader

	out *hook.ReviewResponse
	// isSet reports whether the field allowed was present; allowed is its value.
	isSet, allowed bool
	denial         hook.Denial
	audit          map[string]*string
}

func (r *reviewResponseReader) decode() error {
	fields := []field{
		{"allowed", r.allowedField},
		{"message", &r.denial.Message},
		{"reason", &r.denial.Reason},
		{"code", optional(r.reader, &r.denial.Code, r.codeField)},
		{"object", &r.out.Object},
		{"patch", &r.out.Patch},
		{"jsonPatch", optional(r.reader, &r.out.JSONPatch, r.jsonPatch)},
		{"warnings", limitedList(r.reader, &r.out.Warnings, r.nonNullText)},
		{"auditAnnotations", r.keys(&r.audit, annotationRules)},
		{"events", limitedList(r.reader, &r.out.Events, r.objectEvent)},
	}
	if err := r.document(fields); err != nil {
		return err
	}
	switch {
	case r.isSet:
		return r.check()
	case len(r.unknown) > 0:
		return r.errorAt(fieldPath(r.unknown[0]), "unknown field, and allowed is missing%s", suggestion(r.unknown[0], fields))
	}
	return malformedAt("allowed", "required: true or false")
}

// allowedField reads true or false and accepts neither null nor duplicates.
func (r *reviewResponseReader) allowedField() error {
	if r.null() {
		return r.errorAt("", "must be true or false, is null")
	}
	if r.isSet {
		return r.errorAt("", "given twice")
	}
	r.isSet = true
	return r.boolean(&r.allowed)
}

// codeField reads the HTTP status of a denial.
func (r *reviewResponseReader) codeField() error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	if json.Unmarshal(value, &r.denial.Code) != nil || r.denial.Code < http.StatusBadRequest || r.denial.Code > 599 {
		return r.errorAt("", "must be an HTTP error status, 400 to 599")
	}
	return nil
}

// jsonPatch reads a JSON patch and checks its form; the API server checks its effect.
func (r *reviewResponseReader) jsonPatch() error {
	var operations []string
	start := r.dec.InputOffset()
	err := elements(r.reader, "a list of operations", &operations, r.jsonPatchOperation)
	if len(operations) > 0 {
		r.out.JSONPatch = bytes.TrimLeft(r.since(start), ": \n\r\t")
	}
	return err
}

// jsonPatchOperations are the operations of JSON patches, with the field that each
// requires besides path.
var jsonPatchOperations = map[string]string{
	"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": "path",
}

func (r *reviewResponseReader) jsonPatchOperation(op *string) error {
	var path, from string
	texts, has := map[string]*string{"op": op, "path": &path, "from": &from}, map[string]bool{}
	err := r.members(func(name []byte) error {
		has[string(name)] = true
		if into := texts[string(name)]; into != nil {
			return r.text(into)
		}
		return r.skip()
	})
	needed, known := jsonPatchOperations[*op]
	switch {
	case err != nil:
		return err
	case *op == "":
		return r.errorAt(".op", "required")
	case !known:
		return r.errorAt(".op", "must be add, remove, replace, move, copy or test, is %q", shorten(*op))
	case !has["path"]:
		return r.errorAt(".path", "required")
	case path != "" && path[0] != '/':
		return r.errorAt(".path", "%q: must be a JSON pointer, such as /metadata/labels", shorten(path))
	case from != "" && from[0] != '/':
		return r.errorAt(".from", "%q: must be a JSON pointer, such as /metadata/labels", shorten(from))
	case !has[needed]:
		return r.errorAt("."+needed, "required for %s", *op)
	}
	return nil
}

// objectEvent reads one event and the object it is for, if given.
func (r *reviewResponseReader) objectEvent(e *hook.ObjectEvent) error {
	return r.event(&e.Event, field{"object", func() error { return r.involvedObject(e) }})
}

// involvedObject reads the event's object; null means the reviewed object.
func (r *reviewResponseReader) involvedObject(e *hook.ObjectEvent) error {
	if r.null() {
		return r.skip()
	}
	return r.fields(referenceFields(e)...)
}

// check rejects fields that contradict each other, such as a denial with a patch.
func (r *reviewResponseReader) check() error {
	r.setAudit()
	changes := present(given{"object", r.out.Object != nil}, given{"patch", r.out.Patch != nil}, given{"jsonPatch", r.out.JSONPatch != nil})
	switch {
	case len(changes) > 1:
		return malformedAt(changes[1], "not allowed with %s: set only one of them", changes[0])
	case r.allowed && r.denial.Code != 0:
		return malformedAt("code", "only for allowed: false")
	case r.allowed && r.denial.Reason != "":
		return malformedAt("reason", "only for allowed: false")
	case r.allowed && r.denial.Message != "":
		return malformedAt("message", "only for allowed: false; to warn the user, return warnings")
	case r.allowed:
		return nil
	case len(changes) > 0:
		return malformedAt(changes[0], "only for allowed: true; a denied change is not stored")
	case r.denial.Message == "":
		return malformedAt("message", "required for allowed: false: say what is wrong and how to fix it")
	}
	r.out.Denial = &r.denial
	return nil
}

// setAudit sets the annotations for the audit log; null means none.
func (r *reviewResponseReader) setAudit() {
	if r.audit == nil {
		return
	}
	r.out.AuditAnnotations = map[string]string{}
	for key, value := range r.audit {
		if value != nil {
			r.out.AuditAnnotations[key] = *value
		}
	}
}
