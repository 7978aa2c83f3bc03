package hook

import (
	"encoding/json"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeVerdict reads the answer to a Review. What it returns points into data,
// which is not to be changed afterwards.
//
// The field allowed must be there: neither silence nor a misspelt word lets a change
// pass. Whatever is not clearly a verdict is a *MalformedError.
func DecodeVerdict(data []byte, d Decoding) (*Verdict, error) {
	r := verdictReader{reader: newReader(data, d), out: &Verdict{}}
	if err := r.reply(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

// verdictReader reads the answer to a Review.
type verdictReader struct {
	reader

	out *Verdict
	// given says that there was a field allowed, and allowed what it said.
	given, allowed bool
	denial         Denial
	code           *int
}

// The fields of an answer to a review, beside those that it has in common with
// other answers.
const (
	fieldAllowed   = "allowed"
	fieldReason    = "reason"
	fieldCode      = "code"
	fieldObject    = "object"
	fieldJSONPatch = "jsonPatch"
	fieldWarnings  = "warnings"
	fieldAudit     = "auditAnnotations"
)

// verdictFields is the one list of the fields that an answer to a review may have.
func verdictFields() []string {
	return []string{
		fieldAllowed, fieldMessage, fieldReason, fieldCode,
		fieldObject, fieldPatch, fieldJSONPatch, fieldWarnings, fieldAudit, fieldEvents,
	}
}

func (r *verdictReader) reply() error {
	if err := r.whole(r.field); err != nil {
		return err
	}
	switch {
	case r.given:
		return r.check()
	case r.unknown != nil:
		return malformedAt(pathOf(jsontext.Pointer("").AppendToken(*r.unknown)),
			"unknown field, and %s is missing%s", fieldAllowed, suggestion(*r.unknown, verdictFields()))
	}
	return malformedAt(fieldAllowed, "required; answer true or false")
}

func (r *verdictReader) field(name []byte) (err error) {
	switch string(name) {
	case fieldAllowed:
		return r.decision()
	case fieldMessage:
		return r.word(&r.denial.Message)
	case fieldReason:
		return r.word(&r.denial.Reason)
	case fieldCode:
		return r.status()
	case fieldObject:
		r.out.Object, err = r.rawObject()
	case fieldPatch:
		r.out.Patch, err = r.rawObject()
	case fieldJSONPatch:
		r.out.JSONPatch, err = r.operations()
	case fieldWarnings:
		r.out.Warnings = nil
		err = r.optional(r.warning)
	case fieldAudit:
		r.out.Audit, err = r.audit()
	case fieldEvents:
		r.out.Events = nil
		err = r.optional(r.eventAt)
	default:
		err = r.other(name, verdictFields())
	}
	return err
}

// decision reads true or false, and nothing that could pass for one of them.
func (r *verdictReader) decision() error {
	if r.null() {
		return r.fault("", "must be true or false, is null")
	}
	if r.given {
		return r.fault("", "given twice")
	}
	r.given = true
	return r.boolean(&r.allowed)
}

// status reads the HTTP status of a refusal; null is none.
func (r *verdictReader) status() error {
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
		return r.fault("", "must be the HTTP status of an error, 400 to 599")
	}
	r.code = &code
	return nil
}

// operations reads a JSON patch. What is in it is the API server's to judge, but for
// what it would not say clearly.
func (r *verdictReader) operations() (json.RawMessage, error) {
	if r.null() {
		return nil, r.skip()
	}
	var first int64
	err := r.elements("a list of operations", func() error {
		if first == 0 {
			first = r.dec.InputOffset()
		}
		return r.operation()
	})
	if err != nil || first == 0 {
		return nil, err
	}
	end := r.dec.InputOffset()
	return json.RawMessage(r.data[first-1 : end : end]), nil
}

func (r *verdictReader) operation() error {
	var op, path string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "op":
			return r.word(&op)
		case "path":
			return r.word(&path)
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return err
	case op == "":
		return r.fault(".op", "required")
	case path != "" && path[0] != '/':
		return r.fault(".path", "%q: must be a JSON pointer, such as /metadata/labels", shorten(path))
	}
	return nil
}

func (r *verdictReader) warning() error {
	if len(r.out.Warnings) == maxAdditions {
		return r.tooMany()
	}
	var text string
	if err := r.string(&text); err != nil {
		return err
	}
	r.out.Warnings = append(r.out.Warnings, text)
	return nil
}

// audit reads annotations of the audit log; null is none.
func (r *verdictReader) audit() (map[string]string, error) {
	marks, err := r.marks(annotationRules)
	if err != nil || marks == nil {
		return nil, err
	}
	all := map[string]string{}
	for key, value := range marks {
		if value != nil {
			all[key] = *value
		}
	}
	return all, nil
}

// eventAt reads one event, told at the object that it names, if it does.
func (r *verdictReader) eventAt() error {
	if len(r.out.Events) == maxAdditions {
		return r.tooMany()
	}
	e := EventAt{Event: Event{Type: eventNormal}}
	err := r.members(func(name []byte) error {
		if string(name) == fieldObject {
			return r.involved(&e)
		}
		return r.eventMember(name, &e.Event, fieldObject)
	})
	if err != nil {
		return err
	}
	r.out.Events = append(r.out.Events, e)
	return r.checkEvent(e.Event)
}

// involved reads which object an event is told at; null for the one asked about.
func (r *verdictReader) involved(e *EventAt) error {
	if r.null() {
		return r.skip()
	}
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.word(&e.APIVersion)
		case "kind":
			return r.word(&e.Kind)
		case "namespace":
			return r.word(&e.Namespace)
		case "name":
			return r.word(&e.Name)
		case "uid":
			return r.word(&e.UID)
		}
		return r.stray(name, []string{"apiVersion", "kind", "namespace", "name", "uid"})
	})
	switch {
	case err != nil:
		return err
	case e.APIVersion == "":
		return r.fault(".apiVersion", "required")
	case e.Kind == "":
		return r.fault(".kind", "required")
	case e.Name == "":
		return r.fault(".name", "required")
	}
	return nil
}

// check holds what goes with a refusal apart from what goes with a change.
func (r *verdictReader) check() error {
	changes := r.changes()
	switch {
	case len(changes) > 1:
		return malformedAt(changes[1], "goes with no %s: say what to change in one way", changes[0])
	case r.allowed && r.code != nil:
		return malformedAt(fieldCode, "goes with allowed: false")
	case r.allowed && r.denial.Reason != "":
		return malformedAt(fieldReason, "goes with allowed: false")
	case r.allowed && r.denial.Message != "":
		return malformedAt(fieldMessage, "goes with allowed: false; to tell the user something all the same, answer warnings")
	case r.allowed:
		return nil
	case len(changes) > 0:
		return malformedAt(changes[0], "goes with allowed: true; of what is refused nothing is stored")
	case r.denial.Message == "":
		return malformedAt(fieldMessage, "required with allowed: false; say what is wrong and what to do")
	}
	if r.code != nil {
		r.denial.Code = *r.code
	}
	r.out.Denial = &r.denial
	return nil
}

// changes are the fields by which the answer changes the object.
func (r *verdictReader) changes() []string {
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
