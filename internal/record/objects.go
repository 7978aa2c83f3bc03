package record

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/hook"
)

// EachObject calls a function with each object of the request, and with other JSON in it.
func (q *Request) EachObject(visit func(json.RawMessage)) {
	groups := func(all []hook.Group) {
		for i := range all {
			for k := range all[i].Objects {
				visit(all[i].Objects[k].Object)
			}
		}
	}
	each := func(all ...json.RawMessage) {
		for _, raw := range all {
			visit(raw)
		}
	}
	switch {
	case q.Sync != nil:
		each(q.Sync.Controller, q.Sync.Parent)
		groups(q.Sync.Children)
		groups(q.Sync.Related)
	case q.Customize != nil:
		each(q.Customize.Controller, q.Customize.Parent)
	case q.Handler != nil:
		each(q.Handler.Controller, q.Handler.Object, q.Handler.PreviousState, q.Handler.Progress)
		groups(q.Handler.Owned)
		for _, c := range q.Handler.Changes {
			each(c.From, c.To)
		}
	case q.Review != nil:
		each(q.Review.Controller, q.Review.Object, q.Review.OldObject)
	}
}

// Map returns a copy of the request with other objects. Changed fields and the progress of handlers count as such.
func (q *Request) Map(edit func(json.RawMessage) json.RawMessage) Request {
	mapped := q.MapObjects(edit)
	if r := mapped.Handler; r != nil {
		r.Progress = editPresent(r.Progress, edit)
		changes := make([]hook.FieldChange, len(r.Changes))
		for i, c := range r.Changes {
			changes[i] = hook.FieldChange{Path: c.Path, From: editPresent(c.From, edit), To: editPresent(c.To, edit)}
		}
		r.Changes = changes
	}
	return mapped
}

// MapObjects returns a copy of the request with other objects.
func (q *Request) MapObjects(edit func(json.RawMessage) json.RawMessage) Request {
	mapped := *q
	switch {
	case q.Sync != nil:
		r := *q.Sync
		r.Controller, r.Parent = editPresent(r.Controller, edit), editPresent(r.Parent, edit)
		r.Children, r.Related = mapGroups(r.Children, edit), mapGroups(r.Related, edit)
		mapped.Sync = &r
	case q.Customize != nil:
		r := *q.Customize
		r.Controller, r.Parent = editPresent(r.Controller, edit), editPresent(r.Parent, edit)
		mapped.Customize = &r
	case q.Handler != nil:
		r := *q.Handler
		r.Controller, r.Object, r.PreviousState = editPresent(r.Controller, edit), editPresent(r.Object, edit), editPresent(r.PreviousState, edit)
		r.Owned = mapGroups(r.Owned, edit)
		mapped.Handler = &r
	case q.Review != nil:
		r := *q.Review
		r.Controller, r.Object, r.OldObject = editPresent(r.Controller, edit), editPresent(r.Object, edit), editPresent(r.OldObject, edit)
		mapped.Review = &r
	}
	return mapped
}

// editPresent leaves JSON that is absent as it is.
func editPresent(raw json.RawMessage, edit func(json.RawMessage) json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	return edit(raw)
}

func mapGroups(groups []hook.Group, edit func(json.RawMessage) json.RawMessage) []hook.Group {
	mapped := make([]hook.Group, len(groups))
	for i, group := range groups {
		mapped[i] = group
		mapped[i].Objects = make([]hook.Entry, len(group.Objects))
		for k, entry := range group.Objects {
			entry.Object = editPresent(entry.Object, edit)
			mapped[i].Objects[k] = entry
		}
	}
	return mapped
}

// JSONWith returns the request as a hook sees it, with other values in place of its objects.
func (q *Request) JSONWith(edit func(json.RawMessage) json.RawMessage) json.RawMessage {
	mapped := q.MapObjects(edit)
	return mapped.JSON()
}

// Size returns how many bytes the objects of the request have.
func (q *Request) Size() (bytes int) {
	q.EachObject(func(raw json.RawMessage) { bytes += len(raw) })
	return bytes
}

// Size returns how many bytes the objects of the response have.
func (r *Response) Size() (bytes int) {
	count := func(parts ...json.RawMessage) {
		for _, part := range parts {
			bytes += len(part)
		}
	}
	if s := r.Sync; s != nil {
		count(s.Status)
		count(s.Children...)
	}
	if h := r.Handler; h != nil {
		count(h.Patch, h.Status, h.Progress)
		for _, applied := range h.Apply {
			count(applied.Object)
		}
	}
	if v := r.Review; v != nil {
		count(v.Object, v.Patch, v.JSONPatch)
	}
	return bytes
}

// HookName returns the name of the hook: that of a handler is not its title.
func (c *Call) HookName() string {
	if c.Request.Handler != nil {
		return c.Request.Handler.Handler
	}
	return c.Name
}
