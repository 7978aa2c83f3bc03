package codec

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
)

// DecodeHandlerResponse decodes the response to a hook.HandlerRequest. The result aliases
// data, which must not change afterwards.
//
// Unlike a hook.Response, it may be empty: {} does nothing. An invalid response is a
// *hook.MalformedError. Any other error is the handler's own, from the response field error:
// a *hook.TerminalError if permanent, a *hook.RetryAfterError with retryAfterSeconds. If there is
// something to write beside it, it is hook.HandlerResponse.Err instead.
func DecodeHandlerResponse(data []byte, d Decoding) (*hook.HandlerResponse, error) {
	r := handlerResponseReader{reader: newReader(data, d), out: &hook.HandlerResponse{}}
	if err := r.decode(); err != nil {
		return nil, r.malformed(err)
	}
	if r.failure == nil {
		return r.out, nil
	}
	err := r.handlerError()
	if r.firstWrite() == "" {
		return nil, err
	}
	r.out.RetryAfter, r.out.Err = 0, err
	return r.out, nil
}

type handlerResponseReader struct {
	*reader

	out *hook.HandlerResponse
	// failure is the response field error; nil for none.
	failure *handlerFailure
}

type handlerFailure struct {
	message   string
	permanent bool
}

func (r *handlerResponseReader) decode() error {
	fields := []field{
		{"patch", optional(r.reader, &r.out.Patch, r.patch)},
		{"status", &r.out.Status},
		{"apply", list(r.reader, &r.out.Apply, r.applied)},
		{"delete", list(r.reader, &r.out.Delete, r.deletion)},
	}
	fields = append(fields, r.reportFields(&r.out.Events, &r.out.Conditions, &r.out.Message)...)
	fields = append(fields,
		field{"retryAfterSeconds", &r.out.RetryAfter},
		field{"error", optional(r.reader, &r.failure, r.errorField)},
		field{"progress", r.progress},
		field{"applicable", r.unless(&r.out.NotApplicable)},
		field{"sideEffects", r.unless(&r.out.NoSideEffects)},
		field{"finished", &r.out.Finished},
	)
	if err := r.document(fields); err != nil {
		return err
	}
	if len(r.unknown) > 0 && !r.hasKnownField {
		return r.errorAt(fieldPath(r.unknown[0]), "unknown field in a response without known fields%s; return {} to do nothing",
			suggestion(r.unknown[0], fields))
	}
	return r.checkCombination()
}

// unless reads a boolean whose default is true as its opposite; null means true.
func (r *handlerResponseReader) unless(into *bool) func() error {
	return func() error {
		value, err := r.value("true or false", 't', 'f', 'n')
		*into = value.Kind() == 'f'
		return err
	}
}

// progress reads the field progress, nil for null. It copies the value, which is kept longer than
// the response.
func (r *handlerResponseReader) progress() error {
	if err := r.raw(&r.out.Progress); err != nil || r.out.Progress == nil {
		return err
	}
	compact := jsontext.Value(slices.Clone(r.out.Progress))
	if err := compact.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return err
	}
	if len(compact) > hook.MaxProgress {
		return r.errorAt("", "must not exceed %d bytes, has %d: Setpoint stores it in the object; keep more elsewhere",
			hook.MaxProgress, len(compact))
	}
	r.out.Progress = json.RawMessage(compact)
	return nil
}

func (r *handlerResponseReader) errorField() error {
	r.failure = &handlerFailure{}
	return r.fields(field{"message", nonEmpty{&r.failure.message}}, field{"permanent", &r.failure.permanent})
}

// checkCombination rejects fields that exclude each other.
func (r *handlerResponseReader) checkCombination() error {
	switch a, failed := r.out, r.failure != nil; {
	case a.NotApplicable && failed:
		return malformedAt("error", "not allowed with applicable false")
	case a.NotApplicable && a.RetryAfter > 0:
		return malformedAt("retryAfterSeconds", "not allowed with applicable false: the handler is called when the object changes")
	case a.NotApplicable && r.firstWrite() != "":
		return malformedAt(r.firstWrite(), "not allowed with applicable false, which writes nothing")
	case a.NoSideEffects && (failed || a.RetryAfter > 0 || a.NotApplicable || a.Finished || r.firstWrite() != ""):
		return malformedAt("sideEffects", "false is allowed only alone: the handler did nothing")
	case failed && len(a.Apply) > 0:
		return malformedAt("apply", notWithError)
	case failed && len(a.Delete) > 0:
		return malformedAt("delete", notWithError)
	case failed && a.Finished:
		return malformedAt("finished", "not allowed with an error, after which the daemon is started again")
	case failed && r.failure.permanent && a.RetryAfter > 0:
		return malformedAt("retryAfterSeconds", "not allowed with a permanent error, which is not retried")
	case failed && r.failure.permanent && a.Progress != nil:
		return malformedAt("progress", "not allowed with a permanent error, which is not retried")
	case !failed && a.RetryAfter == 0 && a.Progress != nil:
		return malformedAt("progress", "requires retryAfterSeconds or an error: without them the call is complete")
	}
	return nil
}

const notWithError = "not allowed with an error, beside which only patch, status, events, conditions, message and progress are written"

// firstWrite returns the first field with an effect, apart from the next call, or "".
func (r *handlerResponseReader) firstWrite() string {
	a := r.out
	fields := present(
		given{"patch", a.Patch != nil}, given{"status", a.Status != nil},
		given{"apply", len(a.Apply) > 0}, given{"delete", len(a.Delete) > 0},
		given{"events", len(a.Events) > 0}, given{"conditions", len(a.Conditions) > 0}, given{"message", a.Message != ""},
		given{"progress", a.Progress != nil}, given{"finished", a.Finished},
	)
	return append(fields, "")[0]
}

// maxErrorMessage limits the bytes kept of a handler's error message.
const maxErrorMessage = 1000

func (r *handlerResponseReader) handlerError() error {
	err := errors.New(truncate(r.failure.message, maxErrorMessage))
	switch {
	case r.failure.permanent:
		return &hook.TerminalError{Err: err}
	case r.out.RetryAfter > 0:
		return &hook.RetryAfterError{After: r.out.RetryAfter, Err: err}
	}
	return err
}

// patch reads a merge patch of the object. It rejects identity fields, the status, and metadata that other clients own.
func (r *handlerResponseReader) patch() error {
	start, err := r.openObject(func(name []byte) error {
		switch string(name) {
		case "apiVersion", "kind":
			return r.errorAt("", "cannot be patched: it identifies the object")
		case "status":
			return r.errorAt("", "cannot be patched here; use the field status of the response")
		case "metadata":
			return r.members(r.metadataPatch)
		}
		return r.skip()
	})
	if err == nil {
		r.out.Patch = r.since(start)
	}
	return err
}

func (r *handlerResponseReader) metadataPatch(name []byte) error {
	rules := labelRules
	switch string(name) {
	case "labels":
	case "annotations":
		rules = annotationRules
	default:
		return r.errorAt("", "cannot be patched: only labels and annotations of the metadata can")
	}
	if r.null() {
		return r.errorAt("", "must be an object, is null; to remove a key, set the key to null")
	}
	var checked map[string]*string
	return r.keys(&checked, rules)()
}

// applied reads one object to apply: the bare object, or {"object": …, "unowned": …}. An
// object with a top-level field object or unowned needs the second form.
func (r *handlerResponseReader) applied(a *hook.AppliedObject) error {
	var id identity
	var wrapped bool
	sibling := ""
	start, err := r.openObject(func(name []byte) error {
		switch string(name) {
		case "object":
			wrapped = true
			return r.object(&a.Object)
		case "unowned":
			wrapped = true
			return r.boolean(&a.Unowned)
		}
		if sibling == "" {
			sibling = string(name)
		}
		return r.identityMember(name, &id)
	})
	switch {
	case err != nil:
		return err
	case wrapped:
		return r.checkWrapped(a, sibling)
	}
	a.Object = r.since(start)
	return r.requireIdentity(id)
}

func (r *handlerResponseReader) checkWrapped(a *hook.AppliedObject, sibling string) error {
	switch {
	case a.Object == nil:
		return r.errorAt(".object", "required")
	case sibling != "" && !r.decoding.loose():
		return r.errorAt(fieldPath(sibling), "unknown field next to object and unowned; fields of the object belong in the field object")
	}
	return nil
}

func (r *handlerResponseReader) deletion(d *hook.Deletion) error {
	err := r.fields(
		field{"apiVersion", nonEmpty{&d.APIVersion}},
		field{"kind", nonEmpty{&d.Kind}},
		field{"namespace", &d.Namespace},
		field{"name", &d.Name},
		field{"selector", &d.Selector},
		field{"evict", &d.Evict},
	)
	switch {
	case err != nil:
		return err
	case d.Name == "" && d.Selector == "":
		return r.errorAt("", "name or selector required")
	case d.Name != "" && d.Selector != "":
		return r.errorAt(".selector", "not allowed with a name")
	case d.Evict && (d.APIVersion != "v1" || d.Kind != "Pod"):
		return r.errorAt(".evict", "only pods can be evicted")
	case d.Selector == "":
		return nil
	}
	selector, err := labels.Parse(d.Selector)
	if err != nil {
		return r.errorAt(".selector", `%q: must be a label selector, such as "app=web,tier!=cache"`, shorten(d.Selector))
	}
	if selector.Empty() {
		return r.errorAt(".selector", "selects everything; select what to delete")
	}
	return nil
}
