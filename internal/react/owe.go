package react

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// owed is an answer that is not written yet, or not all of it.
type owed struct {
	call   call
	answer *hook.Answer
	// resolved says that targets are what the answer deletes. Who is deleted is
	// found out once: what takes its place meanwhile stays.
	resolved bool
	targets  []target
	// applied is how many of the objects were applied.
	applied int
	// carried says that only the object itself is to be written now.
	carried bool
	attempt attempt
	// fresh says that this run brought it.
	fresh bool
	// base is the object as the handler saw it, and as our writes of the answer have made
	// it since; former is the handler's progress before the call.
	base   *object.Object
	former progress
}

// content says whether the answer has something to say of the object itself.
func (o *owed) content() bool {
	a := o.answer
	return a.Patch != nil || a.Status != nil || len(a.Conditions) > 0 || a.Message != ""
}

// handled notes an answer: what is to be written, and the entry that is recorded
// with it.
func (r *run) handled(o *owed) {
	c, answer := o.call, o.answer
	h, m := &r.program.Handlers[c.handler], &r.memory.handlers[c.handler]
	m.complaint = ""
	r.memory.owed = append(r.memory.owed, o)
	e := r.known()[h.Name]
	// What the handler itself writes is no news to it.
	after := r.watched[c.handler]
	m.answered = nil
	if made := h.answered(r.stored, answer); made != nil {
		after = digest(h.watched(made))
		if h.KeepOld {
			m.answered = made
		}
	}
	if e.Seen != "" && e.Seen != after && c.reason != hook.ReasonUpdate && m.knows(e.Seen, r.watched[c.handler]) {
		e.Seen, e.Kept = after, false
	}
	if answer.RetryAfter > 0 && c.reason != hook.ReasonEvent {
		r.comeAgain(c, answer, after)
		if c.reason == hook.ReasonUpdate {
			e.Under, e.At = after, m.idle.since.Unix()
		}
	} else {
		r.settle(c, &e, after)
	}
	if e != (entry{}) {
		m.pending, m.before = &e, r.watched[c.handler]
	}
	if answer.Conditions != nil {
		r.memory.conditions = true
	}
}

// settle notes that a handler is done with what it was told of.
func (r *run) settle(c call, e *entry, after string) {
	m := &r.memory.handlers[c.handler]
	if c.reason != hook.ReasonEvent {
		m.attempt = attempt{}
	}
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		*e = entry{Seen: after, Owned: e.Owned}
		m.handled, m.resumed = c.object, true
	case hook.ReasonDelete:
		*e = entry{Done: true}
	case hook.ReasonResume:
		e.Tries, e.Since = 0, 0
		m.resumed = true
	case hook.ReasonDrift:
		e.Tries, e.Since, e.Owned = 0, 0, c.input
	case hook.ReasonTimer:
		m.ticked = r.program.Handlers[c.handler].counted(c, r.tools.Now())
	}
}

// comeAgain notes that a handler wants to be told the same once more.
func (r *run) comeAgain(c call, answer *hook.Answer, after string) {
	h, former := &r.program.Handlers[c.handler], r.memory.handlers[c.handler].attempt
	now, delay := r.tools.Now(), answer.RetryAfter
	again := attempt{reason: c.reason, input: c.input, since: now, again: true}
	if delay == hook.Immediately {
		delay = 0
		if former.again && former.is(c) {
			again.rounds = former.rounds + 1
			delay = h.delay(nil, again.rounds)
		}
	}
	again.next = now.Add(delay)
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume:
		again.input = after
	case hook.ReasonDelete:
		again.input = deleting(after)
	}
	r.memory.handlers[c.handler].attempt = again
}

// answered is an object as an answer has it; nil if the answer leaves alone what
// the handler watches.
func (h *Handler) answered(o *object.Object, a *hook.Answer) *object.Object {
	patch := saidOf(a, h.watchesStatus())
	if patch == nil {
		return nil
	}
	return patched(o, patch)
}

// saidOf is what an answer changes in the object, as a patch, with or without the
// status; nil if it changes nothing.
func saidOf(a *hook.Answer, status bool) map[string]any {
	status = status && a.Status != nil
	if a.Patch == nil && !status {
		return nil
	}
	patch := tree(a.Patch)
	if status {
		patch = combined(patch, map[string]any{"status": tree(a.Status)})
	}
	return patch
}

// patched is an object with a patch; nil if that is none: the server will say what
// is wrong with it.
func patched(o *object.Object, patch map[string]any) *object.Object {
	made, err := objectOf(merged(tree(o.JSON()), patch))
	if err != nil {
		return nil
	}
	return made
}

// watchesStatus says whether a field of the status is among those that the handler
// watches; who watches all of an object does not watch its status.
func (h *Handler) watchesStatus() bool {
	return slices.ContainsFunc(h.Fields, func(path []string) bool { return len(path) == 0 || path[0] == "status" })
}

func objectOf(fields map[string]any) (*object.Object, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}

// supersede drops what a handler owes that is about to be told anew.
func (r *run) supersede(c call) {
	if c.reason == hook.ReasonEvent {
		return
	}
	r.memory.owed = slices.DeleteFunc(r.memory.owed, func(o *owed) bool {
		return o.call.handler == c.handler && o.call.reason != hook.ReasonEvent
	})
}

// overtaken says that a field which an answer sets is not as the handler saw it: another
// client, or another handler, wrote it before the answer could be written. What was
// written of the answer itself is in its base.
func (r *run) overtaken(o *owed) bool {
	return o.base != nil && len(contested(o.answer, o.base, r.stored, false)) > 0
}

// redo drops an answer that was overtaken: the handler is called again, for the object as
// it is.
func (r *run) redo(o *owed) {
	r.memory.owed = slices.DeleteFunc(r.memory.owed, func(other *owed) bool { return other == o })
	m := &r.memory.handlers[o.call.handler]
	m.progress = o.former
	if o.call.reason == hook.ReasonEvent {
		m.events = append([]store.Event{o.call.event}, m.events...)
	}
	r.log.Debug("response overtaken by another write; handler is called again", "object", r.stored.Ref().String(),
		"handler", r.program.Handlers[o.call.handler].Name)
}

// owes says whether a handler has an answer that is not written yet, but for
// those that are.
func (m *memory) owes(handler int, but []*owed) bool {
	return slices.ContainsFunc(m.owed, func(o *owed) bool { return o.call.handler == handler && !slices.Contains(but, o) })
}
