package hook

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeAnswer reads the answer to a Notice. What it returns points into data,
// which is not to be changed afterwards.
//
// Unlike a Response, an answer may be empty: {} says that there is nothing to do.
// Whatever is not clearly an answer is a *MalformedError. Any other error is the
// handler's own, from the answer's field error: a *TerminalError where it is
// permanent, a *RetryAfterError where it says when to come again.
func DecodeAnswer(data []byte, d Decoding) (*Answer, error) {
	r := answerReader{reader: newReader(data, d), out: &Answer{}}
	if err := r.reply(); err != nil {
		return nil, r.malformed(err)
	}
	if r.failure.given {
		return nil, r.own()
	}
	return r.out, nil
}

// answerReader reads the answer to a Notice.
type answerReader struct {
	reader

	out     *Answer
	failure failure
	// known says that there was a field that answers have.
	known bool
}

// failure is what an answer says that went wrong.
type failure struct {
	given     bool
	message   string
	permanent bool
}

// The fields of an answer to a notice, beside those that it has in common with
// other answers.
const (
	fieldPatch      = "patch"
	fieldApply      = "apply"
	fieldDelete     = "delete"
	fieldRetryAfter = "retryAfterSeconds"
	fieldError      = "error"
)

// answerFields is the one list of the fields that an answer may have.
func answerFields() []string {
	return []string{fieldPatch, fieldStatus, fieldApply, fieldDelete, fieldEvents, fieldConditions, fieldMessage, fieldRetryAfter, fieldError}
}

func (r *answerReader) reply() error {
	if err := r.whole(r.field); err != nil {
		return err
	}
	if r.unknown != nil && !r.known {
		return malformedAt(pathOf(jsontext.Pointer("").AppendToken(*r.unknown)),
			"unknown field, and nothing else is there%s; answer {} for nothing to do", suggestion(*r.unknown, answerFields()))
	}
	return r.checkFailure()
}

func (r *answerReader) field(name []byte) (err error) {
	known := r.known
	r.known = true
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
		err = r.word(&r.out.Message)
	case fieldRetryAfter:
		err = r.seconds(&r.out.RetryAfter)
	case fieldError:
		err = r.fail()
	default:
		r.known = known
		err = r.other(name, answerFields())
	}
	return err
}

// fail reads what went wrong; null is nothing.
func (r *answerReader) fail() error {
	r.failure = failure{}
	if r.null() {
		return r.skip()
	}
	r.failure.given = true
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "message":
			return r.word(&r.failure.message)
		case "permanent":
			return r.boolean(&r.failure.permanent)
		}
		return r.stray(name, []string{"message", "permanent"})
	})
	if err == nil && r.failure.message == "" {
		return r.fault(".message", "required")
	}
	return err
}

// checkFailure holds an error apart from an answer: of the one nothing is
// written, of the other all.
func (r *answerReader) checkFailure() error {
	if !r.failure.given {
		return nil
	}
	if field := r.said(); field != "" {
		return malformedAt(field, "goes with no error, of which nothing is written; to write and come again, answer retryAfterSeconds without an error")
	}
	if r.failure.permanent && r.out.RetryAfter > 0 {
		return malformedAt(fieldRetryAfter, "goes with no permanent error, which does not come again")
	}
	return nil
}

// said is the first field by which the answer wants something done.
func (r *answerReader) said() string {
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

// maxFailure is how much is repeated of what a handler says went wrong.
const maxFailure = 1000

// own is the handler's own error.
func (r *answerReader) own() error {
	err := errors.New(cut(r.failure.message, maxFailure))
	switch {
	case r.failure.permanent:
		return &TerminalError{Err: err}
	case r.out.RetryAfter > 0:
		return &RetryAfterError{After: r.out.RetryAfter, Err: err}
	}
	return err
}
