package hook

import "errors"

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
	if r.failure != nil {
		return nil, r.handlerError()
	}
	return r.out, nil
}

type handlerResponseReader struct {
	*reader

	out *HandlerResponse
	// failure is the response field error; nil for none.
	failure *handlerFailure
}

type handlerFailure struct {
	message   string
	permanent bool
}

// The fields of handler responses that errors name.
const (
	fieldPatch      = "patch"
	fieldApply      = "apply"
	fieldDelete     = "delete"
	fieldRetryAfter = "retryAfterSeconds"
)

func (r *handlerResponseReader) decode() error {
	fields := []field{
		{fieldPatch, r.patch},
		{fieldStatus, r.raw(&r.out.Status)},
		{fieldApply, list(r.reader, &r.out.Apply, r.applied)},
		{fieldDelete, list(r.reader, &r.out.Delete, r.deletion)},
	}
	fields = append(fields, r.reportFields(&r.out.Events, &r.out.Conditions, &r.out.Message)...)
	fields = append(fields, field{fieldRetryAfter, r.seconds(&r.out.RetryAfter)}, field{"error", r.errorField})
	if err := r.document(fields); err != nil {
		return err
	}
	if len(r.unknown) > 0 && !r.hasKnownField {
		return malformedAt(topLevelPath(r.unknown[0]),
			"unknown field in a response without known fields%s; return {} to do nothing", suggestion(r.unknown[0], namesOf(fields)))
	}
	return r.checkFailure()
}

// errorField reads the field error; null means success.
func (r *handlerResponseReader) errorField() error {
	r.failure = nil
	if r.null() {
		return r.skip()
	}
	r.failure = &handlerFailure{}
	err := r.fields(field{"message", r.text(&r.failure.message)}, field{"permanent", r.boolean(&r.failure.permanent)})
	if err == nil && r.failure.message == "" {
		return r.errorAt(".message", "required")
	}
	return err
}

// checkFailure rejects a response with both an error and writes: after an error,
// Setpoint writes nothing.
func (r *handlerResponseReader) checkFailure() error {
	if r.failure == nil {
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
