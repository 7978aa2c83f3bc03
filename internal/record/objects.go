package record

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// EachObject calls a function with each object of the request, and with other JSON in it.
func (q *Request) EachObject(visit func(json.RawMessage)) {
	for _, groups := range q.groups() {
		for i := range groups {
			for k := range groups[i].Objects {
				visit(groups[i].Objects[k].Object)
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
	case q.Customize != nil:
		each(q.Customize.Controller, q.Customize.Parent)
	case q.Handler != nil:
		each(q.Handler.Controller, q.Handler.Object, q.Handler.PreviousState, q.Handler.Progress)
		for _, c := range q.Handler.Changes {
			each(c.From, c.To)
		}
	case q.Review != nil:
		each(q.Review.Controller, q.Review.Object, q.Review.OldObject)
	}
}

// Map returns a copy of the request with other objects and other names of them. Changed fields, with their paths, and the
// progress of handlers count as objects.
func (q *Request) Map(edit func(json.RawMessage) json.RawMessage, name func(string) string) Request {
	mapped := q.MapObjects(edit)
	for _, groups := range mapped.groups() {
		for i := range groups {
			for k := range groups[i].Objects {
				entry := &groups[i].Objects[k]
				entry.Namespace, entry.Name = name(entry.Namespace), name(entry.Name)
			}
		}
	}
	if r := mapped.Handler; r != nil {
		r.Progress = editPresent(r.Progress, edit)
		changes := make([]hook.FieldChange, len(r.Changes))
		for i, c := range r.Changes {
			_ = json.Unmarshal(edit(marshal(object.FieldChange(c))), &changes[i]) // It is one.
		}
		r.Changes = changes
	}
	return mapped
}

// groups returns the groups of objects.
func (q *Request) groups() [][]hook.Group {
	switch {
	case q.Sync != nil:
		return [][]hook.Group{q.Sync.Children, q.Sync.Related}
	case q.Handler != nil:
		return [][]hook.Group{q.Handler.Owned}
	}
	return nil
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
		r.Controller, r.Object, r.PreviousState = editPresent(r.Controller, edit), editPresent(r.Object, edit),
			editPresent(r.PreviousState, edit)
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

// EachObject calls a function with each object of the response, and with other JSON in it.
func (r *Response) EachObject(visit func(json.RawMessage)) {
	each := func(all ...json.RawMessage) {
		for _, raw := range all {
			visit(raw)
		}
	}
	if s := r.Sync; s != nil {
		each(s.Status)
		each(s.Children...)
	}
	if h := r.Handler; h != nil {
		each(h.Patch, h.Status, h.Progress)
		for _, applied := range h.Apply {
			each(applied.Object)
		}
	}
	if v := r.Review; v != nil {
		each(v.Object, v.Patch, v.JSONPatch)
	}
}

// Size returns how many bytes the objects of the response have.
func (r *Response) Size() (bytes int) {
	r.EachObject(func(raw json.RawMessage) { bytes += len(raw) })
	return bytes
}

// HookName returns the name of the hook: that of a handler is not its title.
func (c *Call) HookName() string {
	if c.Request.Handler != nil {
		return c.Request.Handler.Handler
	}
	return c.Name
}
