package record

import (
	"bytes"
	"encoding/json"

	"github.com/setpoint-dev/setpoint/hook"
)

// JSON returns a request as the hook sees it, in version v2; nil if it is not recorded.
func (q *Request) JSON() json.RawMessage {
	switch {
	case q.Sync != nil:
		return q.Sync.AppendJSON(nil, hook.Wire{Version: hook.V2, ControllerType: q.ControllerType})
	case q.Customize != nil:
		return q.Customize.AppendJSON(nil)
	case q.Handler != nil:
		return q.Handler.AppendJSON(nil)
	case q.Review != nil:
		return q.Review.AppendJSON(nil)
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
