package trigger

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Rules are the handlers of a program, and what decides whether they handle an object.
type Rules struct {
	// Resource is the kind of the handled objects.
	Resource object.Resource
	// Matches reports whether an object is handled; nil for all.
	Matches func(*object.Object) bool
	// Handlers are called in this order.
	Handlers []Handler
	// Record is where the record is: in the status, with one request for both, if the schema of the kind has
	// lasthandled.StatusField. PreviousRecords are those of controllers whose handlers are now here: it takes over their entries.
	Record          lasthandled.Location
	PreviousRecords []lasthandled.Location
	// Finalizer delays a deletion until the handlers are done. ReplacedFinalizers are those of a previous controller.
	Finalizer          string
	ReplacedFinalizers []string
	// ReplacedAnnotation, if not empty, is on objects that a previous controller has handled. Handlers of updates and
	// resumptions get them as created.
	ReplacedAnnotation string
}

// HandledStateOf reads the record of an object, with what previous controllers and previous names of handlers have left. The
// next write of the record stores the current names.
func (r *Rules) HandledStateOf(o *object.Object) lasthandled.Record {
	state := r.Record.Read(o)
	for _, previous := range r.PreviousRecords {
		state.TakeOver(previous.Read(o))
	}
	for i := range r.Handlers {
		for _, previous := range r.Handlers[i].FormerNames {
			state.Rename(previous, r.Handlers[i].Name)
		}
	}
	return state
}

// Handles reports whether a handler is called for a reason.
func (r *Rules) Handles(reason hook.Reason) bool {
	return slices.ContainsFunc(r.Handlers, func(h Handler) bool { return h.handles(reason) })
}

// Selects reports whether an object is handled.
func (r *Rules) Selects(o *object.Object) bool { return r.Matches == nil || r.Matches(o) }

// handlesObject reports whether a handler may be called for an object. The finalizer of a previous
// controller on another object may be that of a controller that still runs.
func (r *Rules) handlesObject(o *object.Object) bool {
	return r.Selects(o) && slices.ContainsFunc(r.Handlers, func(h Handler) bool {
		reasons := slices.Clip(h.On)
		if h.Daemon != nil {
			reasons = append(reasons, hook.ReasonDaemon)
		}
		if h.isTimer() {
			reasons = append(reasons, hook.ReasonTimer)
		}
		return slices.ContainsFunc(reasons, func(reason hook.Reason) bool { return h.mayHold(reason, nil, o) })
	})
}

// HasFinalizer reports whether an object has the program's finalizer. In a deletion, a finalizer of a
// previous controller serves as well: no other can be added any more.
func (r *Rules) HasFinalizer(o *object.Object) bool {
	return o.HasFinalizer(r.Finalizer) ||
		o.Deleting() && r.handlesObject(o) && slices.ContainsFunc(r.ReplacedFinalizers, o.HasFinalizer)
}

// WithoutOwnFinalizers returns the finalizers of an object except that of the program and, if it
// handles the object, those that it replaces.
func (r *Rules) WithoutOwnFinalizers(o *object.Object) []string {
	names := slices.DeleteFunc(o.Finalizers(), func(name string) bool { return name == r.Finalizer })
	if !r.Selects(o) {
		return names
	}
	return r.withoutReplacedFinalizers(names)
}

func (r *Rules) withoutReplacedFinalizers(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.ReplacedFinalizers, name) })
}

// HasHandled reports whether all handlers have handled the object as it is. A change is nothing to handlers that are not
// for updates: what they have seen is as it was at the creation.
func (r *Rules) HasHandled(recorded lasthandled.Record, o *object.Object) bool {
	for i, watched := range r.watchedDigests(o) {
		h := &r.Handlers[i]
		e := recorded[h.Name]
		if e.InProgress != "" || e.Progress != "" || e.Digest != "" && e.Digest != watched && h.handles(hook.ReasonUpdate) {
			return false
		}
	}
	return true
}

// countsEdits reports whether the generation of an object counts the changes of fields that a handler watches: those of
// a custom resource outside of metadata and status. Kinds of Kubernetes count others as well.
func (r *Rules) countsEdits(h *Handler, o *object.Object) bool {
	isCounted := func(path []string) bool { return path[0] != "metadata" && path[0] != "status" }
	return r.Resource.Custom && r.Resource.Status && o.Generation() != 0 &&
		(len(h.Fields) == 0 || slices.ContainsFunc(h.Fields, isCounted))
}

// isEditUndone reports whether an object has been edited since the edition, and all that was edited is again as it
// was. If other fields have changed as well, it is not known whether watched ones have: then they count as unchanged,
// or each start would repeat the calls of all handlers that watch some fields.
func (r *Rules) isEditUndone(h *Handler, since lasthandled.Edition, o *object.Object) bool {
	edited := since.Generation != 0 && r.countsEdits(h, o) && o.Generation() > since.Generation
	return edited && (len(h.Fields) == 0 || since.Counted == countedDigest(o))
}

func (r *Rules) newHandlers(recorded lasthandled.Record, o *object.Object) []*State {
	handlers := make([]*State, len(r.Handlers))
	for i := range r.Handlers {
		m := &State{Handler: &r.Handlers[i]}
		e := recorded[m.Name]
		m.Resumed, m.editUndone = e.Digest == "", r.isEditUndone(m.Handler, e.Edition, o)
		if e.Attempts > 0 {
			m.Attempt.Count, m.Attempt.delays, m.Attempt.Since = e.Attempts, e.Attempts, time.Unix(e.Since, 0)
		}
		if e.InProgress != "" {
			m.watched, m.WatchedSince = e.InProgress, time.Unix(e.InProgressSince, 0)
		}
		handlers[i] = m
	}
	return handlers
}

// DeletionReasons returns the reasons to call a handler for a deleted object, before its conditions. An optional Delete
// handler is called unless it was called while the finalizer was set.
func (r *Rules) DeletionReasons(h *Handler, o *object.Object) []hook.Reason {
	return lists.Filter([]hook.Reason{hook.ReasonEvent, hook.ReasonDelete}, func(reason hook.Reason) bool {
		return h.handles(reason) && (reason == hook.ReasonEvent || h.Optional && !r.HandledStateOf(o)[h.Name].Done)
	})
}

// ReplacedState returns an object as a previous controller of the same handlers keeps it: what is
// watched by default, and the fields of the status that handlers watch.
func (r *Rules) ReplacedState(o *object.Object) map[string]any {
	state := watchableFields(o)
	for i := range r.Handlers {
		removeBookkeeping(state, r.Handlers[i].IgnoredAnnotations...)
		for _, path := range r.Handlers[i].Fields {
			if text := o.Field(path...); text != nil && path[0] == "status" {
				object.SetField(state, json.RawMessage(text), path...)
			}
		}
	}
	return state
}

// watchedDigests returns a digest of the watched fields for each handler. Handlers that watch
// the whole object share one.
func (r *Rules) watchedDigests(o *object.Object) []string {
	digests, whole := make([]string, len(r.Handlers)), ""
	for i := range r.Handlers {
		h := &r.Handlers[i]
		if len(h.Fields) > 0 {
			digests[i] = lasthandled.Digest(h.WatchedFields(o))
			continue
		}
		if whole == "" {
			whole = lasthandled.Digest(watchableFields(o, h.IgnoredAnnotations...))
		}
		digests[i] = whole
	}
	return digests
}

// stateDigest returns the digest of an object without what Setpoint itself and every write change.
func (r *Rules) stateDigest(o *object.Object) string {
	whole := object.DecodeOrEmpty(o.JSON())
	metadata, _ := whole["metadata"].(map[string]any)
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		delete(metadata, name)
	}
	delete(metadata, "finalizers")
	if others := r.WithoutOwnFinalizers(o); len(others) > 0 {
		metadata["finalizers"] = others
	}
	removeBookkeeping(whole)
	status, _ := whole["status"].(map[string]any)
	if conditions, isList := status["conditions"].([]any); isList {
		status["conditions"] = slices.DeleteFunc(conditions, func(one any) bool {
			condition, _ := one.(map[string]any)
			return condition["type"] == ConditionHandled
		})
	}
	return lasthandled.Digest(whole)
}
