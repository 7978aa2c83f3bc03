package hook

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeHandlerResponse decodes the response to a HandlerRequest. The result aliases
// data, which must not change afterwards.
//
// Unlike a Response, it may be empty: {} does nothing. An invalid response is a
// *MalformedError. Any other error is the handler's own, from the response field error:
// a *TerminalError if permanent, a *RetryAfterError with retryAfterSeconds.
func DecodeHandlerResponse(data []byte, d Decoding) (*HandlerResponse, error) {
	r := handlerResponseReader{reader: newReader(data, d), out: &HandlerResponse{}}
	if err := r.decode(); err != nil {
		return nil, r.malformed(err)
	}
	if r.failure.isSet {
		return nil, r.handlerError()
	}
	return r.out, nil
}

type handlerResponseReader struct {
	reader

	out     *HandlerResponse
	failure handlerFailure
	// hasKnownField reports whether the response has any known field.
	hasKnownField bool
}

// handlerFailure is the response field error.
type handlerFailure struct {
	isSet     bool
	message   string
	permanent bool
}

// The fields that only handler responses have.
const (
	fieldPatch      = "patch"
	fieldApply      = "apply"
	fieldDelete     = "delete"
	fieldRetryAfter = "retryAfterSeconds"
	fieldError      = "error"
)

// handlerResponseFields lists all fields of a handler response.
func handlerResponseFields() []string {
	return []string{fieldPatch, fieldStatus, fieldApply, fieldDelete, fieldEvents, fieldConditions, fieldMessage, fieldRetryAfter, fieldError}
}

func (r *handlerResponseReader) decode() error {
	if err := r.document(r.field); err != nil {
		return err
	}
	if r.firstUnknown != nil && !r.hasKnownField {
		return malformedAt(pathOf(jsontext.Pointer("").AppendToken(*r.firstUnknown)),
			"unknown field in a response without known fields%s; return {} to do nothing", suggestion(*r.firstUnknown, handlerResponseFields()))
	}
	return r.checkFailure()
}

func (r *handlerResponseReader) field(name []byte) (err error) {
	known := r.hasKnownField
	r.hasKnownField = true
	switch string(name) {
	case fieldPatch:
		r.out.Patch, err = r.patch()
	case fieldStatus:
		r.out.Status, err = r.rawObject()
	case fieldApply:
		r.out.Apply = nil
		err = r.optional(r.applied)
	case fieldDelete:
		r.out.Delete = nil
		err = r.optional(r.deletion)
	case fieldEvents:
		r.out.Events = nil
		err = r.optional(func() error { return r.event(&r.out.Events) })
	case fieldConditions:
		r.out.Conditions = nil
		err = r.optional(func() error { return r.condition(&r.out.Conditions) })
	case fieldMessage:
		r.out.Message = ""
		err = r.optionalString(&r.out.Message)
	case fieldRetryAfter:
		err = r.seconds(&r.out.RetryAfter)
	case fieldError:
		err = r.errorField()
	default:
		r.hasKnownField = known
		err = r.unknownField(name, handlerResponseFields())
	}
	return err
}

// errorField reads the field error; null means success.
func (r *handlerResponseReader) errorField() error {
	r.failure = handlerFailure{}
	if r.null() {
		return r.skip()
	}
	r.failure.isSet = true
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "message":
			return r.optionalString(&r.failure.message)
		case "permanent":
			return r.boolean(&r.failure.permanent)
		}
		return r.rejectUnknown(name, []string{"message", "permanent"})
	})
	if err == nil && r.failure.message == "" {
		return r.errorAt(".message", "required")
	}
	return err
}

// checkFailure rejects a response with both an error and writes: after an error,
// Setpoint writes nothing.
func (r *handlerResponseReader) checkFailure() error {
	if !r.failure.isSet {
		return nil
	}
	if field := r.firstWrite(); field != "" {
		return malformedAt(field, "not allowed with an error, which writes nothing; to write and be called again, return retryAfterSeconds without an error")
	}
	if r.failure.permanent && r.out.RetryAfter > 0 {
		return malformedAt(fieldRetryAfter, "not allowed with a permanent error, which is not retried")
	}
	return nil
}

// firstWrite returns the first field that requests a write, or "".
func (r *handlerResponseReader) firstWrite() string {
	switch a := r.out; {
	case a.Patch != nil:
		return fieldPatch
	case a.Status != nil:
		return fieldStatus
	case len(a.Apply) > 0:
		return fieldApply
	case len(a.Delete) > 0:
		return fieldDelete
	case len(a.Events) > 0:
		return fieldEvents
	case len(a.Conditions) > 0:
		return fieldConditions
	case a.Message != "":
		return fieldMessage
	}
	return ""
}

// maxErrorMessage limits the bytes kept of a handler's error message.
const maxErrorMessage = 1000

// handlerError converts the field error to a Go error.
func (r *handlerResponseReader) handlerError() error {
	err := errors.New(truncate(r.failure.message, maxErrorMessage))
	switch {
	case r.failure.permanent:
		return &TerminalError{Err: err}
	case r.out.RetryAfter > 0:
		return &RetryAfterError{After: r.out.RetryAfter, Err: err}
	}
	return err
}
