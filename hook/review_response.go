package hook

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
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
	*reader

	out *ReviewResponse
	// isSet reports whether the field allowed was present; allowed is its value.
	isSet, allowed bool
	denial         Denial
	audit          map[string]*string
}

func (r *reviewResponseReader) decode() error {
	fields := []field{
		{"allowed", r.allowedField},
		{"message", r.text(&r.denial.Message)},
		{"reason", r.text(&r.denial.Reason)},
		{"code", optional(r.reader, &r.denial.Code, r.codeField)},
		{"object", r.raw(&r.out.Object)},
		{"patch", r.raw(&r.out.Patch)},
		{"jsonPatch", optional(r.reader, &r.out.JSONPatch, r.jsonPatch)},
		{"warnings", limitedList(r.reader, &r.out.Warnings, r.string)},
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
		return malformedAt(topLevelPath(r.unknown[0]), "unknown field, and allowed is missing%s",
			suggestion(r.unknown[0], namesOf(fields)))
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
	return r.boolean(&r.allowed)()
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
	start := int64(-1)
	err := r.elements("a list of operations", func() error {
		if start < 0 {
			start = r.dec.InputOffset() - 1
		}
		return r.jsonPatchOperation()
	})
	if err == nil && start >= 0 {
		r.out.JSONPatch = r.since(start)
	}
	return err
}

// jsonPatchOperations are the operations of JSON patches, with the field that each
// requires besides path.
var jsonPatchOperations = map[string]string{
	"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": "path",
}

func (r *reviewResponseReader) jsonPatchOperation() error {
	var op, path, from string
	given := map[string]bool{}
	err := r.members(func(name []byte) error {
		given[string(name)] = true
		switch string(name) {
		case "op":
			return r.text(&op)()
		case "path":
			return r.text(&path)()
		case "from":
			return r.text(&from)()
		}
		return r.skip()
	})
	needed, known := jsonPatchOperations[op]
	switch {
	case err != nil:
		return err
	case op == "":
		return r.errorAt(".op", "required")
	case !known:
		return r.errorAt(".op", "must be add, remove, replace, move, copy or test, is %q", shorten(op))
	case !given["path"]:
		return r.errorAt(".path", "required")
	case path != "" && path[0] != '/':
		return r.errorAt(".path", "%q: must be a JSON pointer, such as /metadata/labels", shorten(path))
	case from != "" && from[0] != '/':
		return r.errorAt(".from", "%q: must be a JSON pointer, such as /metadata/labels", shorten(from))
	case !given[needed]:
		return r.errorAt("."+needed, "required for %s", op)
	}
	return nil
}

// objectEvent reads one event and the object it is for, if given.
func (r *reviewResponseReader) objectEvent() (ObjectEvent, error) {
	e := ObjectEvent{Event: Event{Type: "Normal"}}
	involved := field{"object", func() error { return r.involvedObject(&e) }}
	if err := r.fields(append(r.eventFields(&e.Event), involved)...); err != nil {
		return e, err
	}
	return e, r.checkEvent(e.Event)
}

// involvedObject reads the event's object; null means the reviewed object.
func (r *reviewResponseReader) involvedObject(e *ObjectEvent) error {
	if r.null() {
		return r.skip()
	}
	if err := r.fields(r.referenceFields(e)...); err != nil {
		return err
	}
	return r.checkReference(e)
}

// check rejects fields that contradict each other, such as a denial with a patch.
func (r *reviewResponseReader) check() error {
	r.setAudit()
	changes := r.replacements()
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

// replacements lists the fields that modify the object.
func (r *reviewResponseReader) replacements() []string {
	var all []string
	for _, one := range []struct {
		name  string
		value json.RawMessage
	}{{"object", r.out.Object}, {"patch", r.out.Patch}, {"jsonPatch", r.out.JSONPatch}} {
		if one.value != nil {
			all = append(all, one.name)
		}
	}
	return all
}

// AppendJSON appends the request's wire form to dst, with objects byte for byte. Every
// field is present; absent values are null or "".
func (r *ReviewRequest) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, reviewRequestSize+len(r.Controller)+len(r.Object)+len(r.OldObject))
	dst = appendObject(append(dst, `{"controller":`...), r.Controller)
	for _, one := range []struct{ name, value string }{
		{"webhook", r.Webhook}, {"uid", r.UID}, {"operation", string(r.Operation)},
		{"apiVersion", r.APIVersion}, {"kind", r.Kind}, {"resource", r.Resource}, {"subresource", r.Subresource},
		{"namespace", r.Namespace}, {"name", r.Name},
	} {
		dst = appendString(appendField(dst, one.name), one.value)
	}
	dst = appendObject(appendField(dst, "object"), r.Object)
	dst = appendObject(appendField(dst, "oldObject"), r.OldObject)
	user, _ := json.Marshal(r.User) //nolint:errchkjson // Texts and lists of them always have a form.
	dst = append(appendField(dst, "user"), user...)
	dst = strconv.AppendBool(appendField(dst, "dryRun"), r.DryRun)
	return append(dst, '}')
}

// reviewRequestSize covers a typical request without its objects, including the user.
const reviewRequestSize = 1 << 10
