package record

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

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
