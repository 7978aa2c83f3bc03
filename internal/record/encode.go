package record

import (
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
		if text := appendSync(r.Sync, form); text != nil {
			return text
		}
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
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return text
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

// appendSync returns a response by its objects as they are, which is faster than to encode them again; nil for one with
// other fields.
func appendSync(r *hook.Response, form hook.ControllerType) json.RawMessage {
	if r.ResyncAfter != 0 || r.Finalized || r.Labels != nil || r.Annotations != nil || len(r.Events)+len(r.Conditions)+len(r.Message)+
		len(r.LogicVersion) > 0 {
		return nil
	}
	size := len(r.Status) + 40
	for _, child := range r.Children {
		size += len(child) + 1
	}
	out := append(make([]byte, 0, size), '{')
	if r.Status != nil {
		out = append(append(out, `"status":`...), r.Status...)
	}
	if len(r.Children) == 0 {
		return append(out, '}')
	}
	if len(out) > 1 {
		out = append(out, ',')
	}
	name := `"children":[`
	if form == hook.Decorator {
		name = `"attachments":[`
	}
	out = append(out, name...)
	for i, child := range r.Children {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, child...)
	}
	return append(out, "]}"...)
}

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
