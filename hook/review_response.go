package hook

import (
	"encoding/json"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeReviewResponse decodes the response to a ReviewRequest. The result aliases data,
// which must not change afterwards.
//
// The field allowed is required, so that neither an empty response nor a misspelled
// field allows a change. Every error is a *MalformedError.
func DecodeReviewResponse(data []byte, d Decoding) (*ReviewResponse, error) {
	r := reviewResponseReader{reader: newReader(data, d), out: &ReviewResponse{}}
	if err := r.decode(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

type reviewResponseReader struct {
	reader

	out *ReviewResponse
	// isSet reports whether the field allowed was present; allowed is its value.
	isSet, allowed bool
	denial         Denial
	code           *int
}

// The fields that only review responses have.
const (
	fieldAllowed   = "allowed"
	fieldReason    = "reason"
	fieldCode      = "code"
	fieldObject    = "object"
	fieldJSONPatch = "jsonPatch"
	fieldWarnings  = "warnings"
	fieldAudit     = "auditAnnotations"
)

// reviewResponseFields lists all fields of a review response.
func reviewResponseFields() []string {
	return []string{
		fieldAllowed, fieldMessage, fieldReason, fieldCode,
		fieldObject, fieldPatch, fieldJSONPatch, fieldWarnings, fieldAudit, fieldEvents,
	}
}

func (r *reviewResponseReader) decode() error {
	if err := r.document(r.field); err != nil {
		return err
	}
	switch {
	case r.isSet:
		return r.check()
	case r.firstUnknown != nil:
		return malformedAt(pathOf(jsontext.Pointer("").AppendToken(*r.firstUnknown)),
			"unknown field, and %s is missing%s", fieldAllowed, suggestion(*r.firstUnknown, reviewResponseFields()))
	}
	return malformedAt(fieldAllowed, "required: true or false")
}

func (r *reviewResponseReader) field(name []byte) (err error) {
	switch string(name) {
	case fieldAllowed:
		return r.allowedField()
	case fieldMessage:
		return r.optionalString(&r.denial.Message)
	case fieldReason:
		return r.optionalString(&r.denial.Reason)
	case fieldCode:
		return r.codeField()
	case fieldObject:
		r.out.Object, err = r.rawObject()
	case fieldPatch:
		r.out.Patch, err = r.rawObject()
	case fieldJSONPatch:
		r.out.JSONPatch, err = r.jsonPatch()
	case fieldWarnings:
		r.out.Warnings = nil
		err = r.optional(r.warning)
	case fieldAudit:
		r.out.AuditAnnotations, err = r.audit()
	case fieldEvents:
		r.out.Events = nil
		err = r.optional(r.objectEvent)
	default:
		err = r.unknownField(name, reviewResponseFields())
	}
	return err
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

// codeField reads the HTTP status of a denial; null means the default.
func (r *reviewResponseReader) codeField() error {
	r.code = nil
	if r.null() {
		return r.skip()
	}
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	var code int
	if json.Unmarshal(value, &code) != nil || code < http.StatusBadRequest || code > 599 {
		return r.errorAt("", "must be an HTTP error status, 400 to 599")
	}
	r.code = &code
	return nil
}

// jsonPatch reads a JSON patch. It checks only errors that the API server reports
// unclearly.
func (r *reviewResponseReader) jsonPatch() (json.RawMessage, error) {
	if r.null() {
		return nil, r.skip()
	}
	var first int64
	err := r.elements("a list of operations", func() error {
		if first == 0 {
			first = r.dec.InputOffset()
		}
		return r.jsonPatchOperation()
	})
	if err != nil || first == 0 {
		return nil, err
	}
	end := r.dec.InputOffset()
	return json.RawMessage(r.data[first-1 : end : end]), nil
}

func (r *reviewResponseReader) jsonPatchOperation() error {
	var op, path string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "op":
			return r.optionalString(&op)
		case "path":
			return r.optionalString(&path)
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return err
	case op == "":
		return r.errorAt(".op", "required")
	case path != "" && path[0] != '/':
		return r.errorAt(".path", "%q: must be a JSON pointer, such as /metadata/labels", shorten(path))
	}
	return nil
}

func (r *reviewResponseReader) warning() error {
	if len(r.out.Warnings) == maxListItems {
		return r.tooMany()
	}
	var text string
	if err := r.string(&text); err != nil {
		return err
	}
	r.out.Warnings = append(r.out.Warnings, text)
	return nil
}

// audit reads annotations for the audit log; null means none.
func (r *reviewResponseReader) audit() (map[string]string, error) {
	values, err := r.stringMap(annotationRules)
	if err != nil || values == nil {
		return nil, err
	}
	all := map[string]string{}
	for key, value := range values {
		if value != nil {
			all[key] = *value
		}
	}
	return all, nil
}

// objectEvent reads one event and the object it is for, if given.
func (r *reviewResponseReader) objectEvent() error {
	if len(r.out.Events) == maxListItems {
		return r.tooMany()
	}
	e := ObjectEvent{Event: Event{Type: eventNormal}}
	err := r.members(func(name []byte) error {
		if string(name) == fieldObject {
			return r.involvedObject(&e)
		}
		return r.eventMember(name, &e.Event, fieldObject)
	})
	if err != nil {
		return err
	}
	r.out.Events = append(r.out.Events, e)
	return r.checkEvent(e.Event)
}

// involvedObject reads the event's object; null means the reviewed object.
func (r *reviewResponseReader) involvedObject(e *ObjectEvent) error {
	if r.null() {
		return r.skip()
	}
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.optionalString(&e.APIVersion)
		case "kind":
			return r.optionalString(&e.Kind)
		case "namespace":
			return r.optionalString(&e.Namespace)
		case "name":
			return r.optionalString(&e.Name)
		case "uid":
			return r.optionalString(&e.UID)
		}
		return r.rejectUnknown(name, []string{"apiVersion", "kind", "namespace", "name", "uid"})
	})
	switch {
	case err != nil:
		return err
	case e.APIVersion == "":
		return r.errorAt(".apiVersion", "required")
	case e.Kind == "":
		return r.errorAt(".kind", "required")
	case e.Name == "":
		return r.errorAt(".name", "required")
	}
	return nil
}

// check rejects fields that contradict each other, such as a denial with a patch.
func (r *reviewResponseReader) check() error {
	changes := r.changes()
	switch {
	case len(changes) > 1:
		return malformedAt(changes[1], "not allowed with %s: set only one of them", changes[0])
	case r.allowed && r.code != nil:
		return malformedAt(fieldCode, "only for allowed: false")
	case r.allowed && r.denial.Reason != "":
		return malformedAt(fieldReason, "only for allowed: false")
	case r.allowed && r.denial.Message != "":
		return malformedAt(fieldMessage, "only for allowed: false; to warn the user, return warnings")
	case r.allowed:
		return nil
	case len(changes) > 0:
		return malformedAt(changes[0], "only for allowed: true; a denied change is not stored")
	case r.denial.Message == "":
		return malformedAt(fieldMessage, "required for allowed: false: say what is wrong and how to fix it")
	}
	if r.code != nil {
		r.denial.Code = *r.code
	}
	r.out.Denial = &r.denial
	return nil
}

// changes lists the fields that modify the object.
func (r *reviewResponseReader) changes() []string {
	var all []string
	for _, one := range []struct {
		name  string
		value json.RawMessage
	}{{fieldObject, r.out.Object}, {fieldPatch, r.out.Patch}, {fieldJSONPatch, r.out.JSONPatch}} {
		if one.value != nil {
			all = append(all, one.name)
		}
	}
	return all
}
