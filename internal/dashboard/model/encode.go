package model

import (
	"encoding/json"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// requestJSON returns a request as the hook sees it; nil if it is not recorded.
func requestJSON(q *record.Request) json.RawMessage {
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

// responseJSON returns a response as a hook writes it; nil if there is none.
func responseJSON(a *record.Response, form hook.ControllerType) json.RawMessage {
	switch {
	case a.Sync != nil:
		return marshal(syncResponseOf(a.Sync, form))
	case a.Customize != nil:
		return marshal(rules{a.Customize.Related})
	case a.Handler != nil:
		return marshal(handlerResponseOf(a.Handler))
	case a.Review != nil:
		return marshal(reviewResponseOf(a.Review))
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

// The JSON forms of responses. Package hook decodes them; only this package encodes them.
type (
	syncResponse struct {
		Status             json.RawMessage    `json:"status,omitempty"`
		Children           []json.RawMessage  `json:"children,omitempty"`
		Attachments        []json.RawMessage  `json:"attachments,omitempty"`
		ResyncAfterSeconds float64            `json:"resyncAfterSeconds,omitempty"`
		Finalized          bool               `json:"finalized,omitempty"`
		Labels             map[string]*string `json:"labels,omitempty"`
		Annotations        map[string]*string `json:"annotations,omitempty"`
		Events             []Event            `json:"events,omitempty"`
		Conditions         []condition        `json:"conditions,omitempty"`
		Message            string             `json:"message,omitempty"`
	}
	condition struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	}
	rules struct {
		RelatedResources []hook.RelatedRule `json:"relatedResources"`
	}
	handlerResponse struct {
		Patch             json.RawMessage `json:"patch,omitempty"`
		Status            json.RawMessage `json:"status,omitempty"`
		Apply             []any           `json:"apply,omitempty"`
		Delete            []deletion      `json:"delete,omitempty"`
		Events            []Event         `json:"events,omitempty"`
		Conditions        []condition     `json:"conditions,omitempty"`
		Message           string          `json:"message,omitempty"`
		RetryAfterSeconds float64         `json:"retryAfterSeconds,omitempty"`
	}
	unowned struct {
		Object  json.RawMessage `json:"object"`
		Unowned bool            `json:"unowned"`
	}
	deletion struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace,omitempty"`
		Name       string `json:"name,omitempty"`
		Selector   string `json:"selector,omitempty"`
		Evict      bool   `json:"evict,omitempty"`
	}
	reviewResponse struct {
		Allowed          bool              `json:"allowed"`
		Message          string            `json:"message,omitempty"`
		Reason           string            `json:"reason,omitempty"`
		Code             int               `json:"code,omitempty"`
		Object           json.RawMessage   `json:"object,omitempty"`
		Patch            json.RawMessage   `json:"patch,omitempty"`
		JSONPatch        json.RawMessage   `json:"jsonPatch,omitempty"`
		Warnings         []string          `json:"warnings,omitempty"`
		AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
		Events           []Event           `json:"events,omitempty"`
	}
)

func syncResponseOf(r *hook.Response, form hook.ControllerType) syncResponse {
	out := syncResponse{
		Status: r.Status, Children: r.Children, ResyncAfterSeconds: secondsOf(r.ResyncAfter), Finalized: r.Finalized,
		Labels: r.Labels, Annotations: r.Annotations, Events: eventsOf(r.Events), Conditions: conditionsOf(r.Conditions), Message: r.Message,
	}
	if form == hook.Decorator {
		out.Children, out.Attachments = nil, r.Children
	}
	return out
}

func handlerResponseOf(a *hook.HandlerResponse) handlerResponse {
	out := handlerResponse{
		Patch: a.Patch, Status: a.Status, Events: eventsOf(a.Events), Conditions: conditionsOf(a.Conditions),
		Message: a.Message, RetryAfterSeconds: secondsOf(a.RetryAfter),
	}
	for _, applied := range a.Apply {
		if applied.Unowned {
			out.Apply = append(out.Apply, unowned(applied))
		} else {
			out.Apply = append(out.Apply, applied.Object)
		}
	}
	for _, d := range a.Delete {
		out.Delete = append(out.Delete, deletion(d))
	}
	return out
}

func reviewResponseOf(v *hook.ReviewResponse) reviewResponse {
	out := reviewResponse{
		Allowed: v.Denial == nil, Object: v.Object, Patch: v.Patch, JSONPatch: v.JSONPatch,
		Warnings: v.Warnings, AuditAnnotations: v.AuditAnnotations,
	}
	if d := v.Denial; d != nil {
		out.Message, out.Reason, out.Code = d.Message, d.Reason, d.Code
	}
	for _, at := range v.Events {
		out.Events = append(out.Events, Event(at.Event))
	}
	return out
}

func eventsOf(events []hook.Event) []Event {
	var all []Event
	for _, e := range events {
		all = append(all, Event(e))
	}
	return all
}

func conditionsOf(conditions []hook.Condition) []condition {
	var all []condition
	for _, c := range conditions {
		all = append(all, condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	return all
}

func secondsOf(d time.Duration) float64 { return d.Seconds() }
