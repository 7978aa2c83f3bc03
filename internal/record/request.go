package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// JSON returns a request as the hook sees it, in version v2; nil if it is not recorded.
func (q *Request) JSON() json.RawMessage {
	switch {
	case q.Sync != nil:
		return codec.AppendSyncRequest(nil, q.Sync, codec.Wire{Version: hook.V2, ControllerType: q.ControllerType})
	case q.Customize != nil:
		return codec.AppendCustomizeRequest(nil, q.Customize)
	case q.Handler != nil:
		return codec.AppendHandlerRequest(nil, q.Handler)
	case q.Review != nil:
		return codec.AppendReviewRequest(nil, q.Review)
	}
	return nil
}

// JSON returns a response as a hook writes it to a controller of a type; nil if there is none.
func (r *Response) JSON(form hook.ControllerType) json.RawMessage {
	switch {
	case r.Sync != nil:
		return marshal(syncResponseOf(r.Sync, form))
	case r.Customize != nil:
		return marshal(r.Customize)
	case r.Handler != nil:
		return marshal(handlerResponseOf(r.Handler))
	case r.Review != nil:
		return marshal(reviewResponse{r.Review.Denial == nil, r.Review.Denial, r.Review})
	}
	return nil
}

// marshal returns JSON; nil for a value that cannot be encoded.
func marshal(value any) json.RawMessage {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// The JSON forms of responses, beside the fields that those of package hook have.
type (
	syncResponse struct {
		hook.Response
		Attachments        []json.RawMessage `json:"attachments,omitempty"`
		ResyncAfterSeconds float64           `json:"resyncAfterSeconds,omitempty"`
	}
	handlerResponse struct {
		*hook.HandlerResponse
		Apply             []any         `json:"apply,omitempty"`
		RetryAfterSeconds float64       `json:"retryAfterSeconds,omitempty"`
		Error             *handlerError `json:"error,omitempty"`
		Applicable        any           `json:"applicable,omitempty"`
		SideEffects       any           `json:"sideEffects,omitempty"`
	}
	handlerError struct {
		Message   string `json:"message"`
		Permanent bool   `json:"permanent,omitempty"`
	}
	reviewResponse struct {
		Allowed bool `json:"allowed"`
		*hook.Denial
		*hook.ReviewResponse
	}
)

func syncResponseOf(r *hook.Response, form hook.ControllerType) syncResponse {
	out := syncResponse{Response: *r, ResyncAfterSeconds: r.ResyncAfter.Seconds()}
	if form == hook.Decorator {
		out.Children, out.Attachments = nil, r.Children
	}
	return out
}

func handlerResponseOf(a *hook.HandlerResponse) handlerResponse {
	out := handlerResponse{HandlerResponse: a, RetryAfterSeconds: a.RetryAfter.Seconds()}
	if a.NotApplicable {
		out.Applicable = false
	}
	if a.NoSideEffects {
		out.SideEffects = false
	}
	if a.Err != nil {
		delay, _ := hook.RetryDelay(a.Err)
		out.Error, out.RetryAfterSeconds = &handlerError{a.Err.Error(), hook.IsTerminal(a.Err)}, delay.Seconds()
	}
	for _, applied := range a.Apply {
		if applied.Unowned {
			out.Apply = append(out.Apply, applied)
		} else {
			out.Apply = append(out.Apply, applied.Object)
		}
	}
	return out
}

// FaultOf classifies an error. It returns nil if only its text is known. Its texts have no values of Secrets that the
// error may quote.
func FaultOf(err error) *failure.Fault {
	fault := classify(err)
	if quoting, is := errors.AsType[interface {
		error
		Redact(text string) string
	}](err); is && fault != nil {
		kind := fault.Kind
		fault = new(redact.EachText(*fault, quoting.Redact, nil))
		fault.Kind = kind
	}
	return fault
}

func classify(err error) *failure.Fault {
	if err == nil {
		return nil
	}
	if failure.IsPanic(err) {
		return &failure.Fault{Kind: failure.Panicked}
	}
	if malformed, is := errors.AsType[*hook.MalformedError](err); is {
		return &failure.Fault{Kind: failure.HookInvalidResponse, Path: failure.Truncate(malformed.Path, maxPath)}
	}
	if call, is := errors.AsType[interface {
		error
		Fault() *failure.Fault
	}](err); is {
		return call.Fault()
	}
	if errors.Is(err, identity.ErrForbidden) {
		return &failure.Fault{Kind: failure.Forbidden}
	}
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		// An invalid object is the hook's fault, missing permissions are Setpoint's.
		if failure.SourceOf(err) == "" || apierrors.IsForbidden(status) {
			return apiFault(status)
		}
	}
	return otherFault(err)
}

// apiFault classifies an error of the API server, which reports missing permissions,
// exceeded quotas and policies all as Forbidden.
func apiFault(err *apierrors.StatusError) *failure.Fault {
	switch {
	case apply.Terminating(err):
		return &failure.Fault{Kind: failure.Terminating}
	case apierrors.IsForbidden(err):
		return &failure.Fault{Kind: failure.Forbidden}
	case apierrors.IsInvalid(err) && fieldOf(err) != "": // Admission webhooks refuse objects as invalid without a field.
		return &failure.Fault{Kind: failure.Invalid, Path: failure.Truncate(fieldOf(err), maxPath)}
	case apierrors.IsConflict(err):
		return &failure.Fault{Kind: failure.Conflict}
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err):
		return &failure.Fault{Kind: failure.APIServerUnavailable}
	}
	return &failure.Fault{Kind: failure.Rejected}
}

func fieldOf(err *apierrors.StatusError) string {
	if details := err.ErrStatus.Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" {
				return cause.Field
			}
		}
	}
	return ""
}

// otherFault classifies errors of neither webhooks nor the API server.
func otherFault(err error) *failure.Fault {
	by := failure.SourceOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &failure.Fault{Kind: failure.TimedOut}
	case by == failure.Hook:
		return &failure.Fault{Kind: failure.HookFailed}
	case by == failure.Handler:
		return &failure.Fault{Kind: failure.HandlerFailed}
	}
	if _, is := errors.AsType[net.Error](err); is {
		return &failure.Fault{Kind: failure.APIServerUnavailable}
	}
	return nil
}

// maxPath limits the bytes of a path, which may contain names that a hook chose.
const maxPath = 300

// EachObject calls a function with each object of the request, and with other JSON in it.
func (q *Request) EachObject(visit func(json.RawMessage)) {
	for _, group := range slices.Concat(q.groups()...) {
		for i := range group.Objects {
			visit(group.Objects[i].Object)
		}
	}
	switch {
	case q.Sync != nil:
		visitAll(visit, q.Sync.Controller, q.Sync.Parent)
	case q.Customize != nil:
		visitAll(visit, q.Customize.Controller, q.Customize.Parent)
	case q.Handler != nil:
		visitAll(visit, q.Handler.Controller, q.Handler.Object, q.Handler.PreviousState, q.Handler.Progress)
		for _, c := range q.Handler.Changes {
			visitAll(visit, c.From, c.To)
		}
	case q.Review != nil:
		visitAll(visit, q.Review.Controller, q.Review.Object, q.Review.OldObject)
	}
}

func visitAll(visit func(json.RawMessage), all ...json.RawMessage) {
	for _, raw := range all {
		visit(raw)
	}
}

func (q *Request) groups() [][]hook.Group {
	switch {
	case q.Sync != nil:
		return [][]hook.Group{q.Sync.Children, q.Sync.Related}
	case q.Handler != nil:
		return [][]hook.Group{q.Handler.Owned}
	}
	return nil
}

// EachObject calls a function with each object of the response, and with other JSON in it.
func (r *Response) EachObject(visit func(json.RawMessage)) {
	if s := r.Sync; s != nil {
		visit(s.Status)
		visitAll(visit, s.Children...)
	}
	if h := r.Handler; h != nil {
		visitAll(visit, h.Patch, h.Status, h.Progress)
		for _, applied := range h.Apply {
			visit(applied.Object)
		}
	}
	if v := r.Review; v != nil {
		visitAll(visit, v.Object, v.Patch, v.JSONPatch)
	}
}

// Size returns how many bytes the objects of the request and of the response have.
func (c *Call) Size() (bytes int) {
	add := func(raw json.RawMessage) { bytes += len(raw) }
	c.Sent.EachObject(add)
	c.Received.EachObject(add)
	return bytes
}

// HookName returns the name of the hook: that of a handler is not its title.
func (c *Call) HookName() string {
	if c.Sent.Handler != nil {
		return c.Sent.Handler.Handler
	}
	return c.Name
}

// Values returns the values of the Secrets in a run, which must not be in what leaves the process. Tokens of the key replace
// them, or a mask without one.
func (r *Run) Values(key *redact.Key) *redact.Values {
	values := redact.New(key, r.Object.Namespace, r.Object.Name)
	for i := range r.Steps {
		switch s := &r.Steps[i]; {
		case s.Call != nil:
			See(values, r.Object.GroupKind(), &s.Call.Sent, &s.Call.Received)
		case s.Plan != nil:
			for _, a := range slices.Concat(s.Plan.Stages...) {
				addSecrets(values, a.Before, a.After)
			}
		case s.Write != nil:
			addSecrets(values, s.Write.Before, s.Write.After)
		}
	}
	values.Include(r.Secrets) // No step has what a handler read, or what the error of a run that failed early quotes.
	return values
}

// See adds the values of the Secrets in a request about an object of a kind, and in the response.
func See(values *redact.Values, about object.GroupKind, request *Request, response *Response) {
	secret := about.IsSecret()
	values.See(secret, func(visit func(json.RawMessage)) {
		if secret { // Parts of it are in fields that tell what they are.
			visit(request.JSON())
			visit(response.JSON(request.ControllerType))
		}
		request.EachObject(visit)
		response.EachObject(visit)
	})
}

// addSecrets adds the values of those objects that are Secrets.
func addSecrets(values *redact.Values, objects ...*object.Object) {
	for _, o := range objects {
		if o != nil && o.GroupKind().IsSecret() {
			values.See(false, func(visit func(json.RawMessage)) { visit(o.JSON()) })
		}
	}
}
