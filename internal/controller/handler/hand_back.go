package handler

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// HandBack are merge patches that leave an object to the controller that the program has replaced:
// instead of the record, the object has the ReplacedAnnotation with the state that is handled.
type HandBack struct {
	// Object and Status are the patches of the object and of its status; nil for none.
	Object, Status []byte
	// Outdated means that a handler has not handled the object as it is. It gets no annotation, so
	// the former controller handles it as new.
	Outdated bool
}

// HandBack returns the patches for one object; without a record there are none.
func (p *Program) HandBack(o *object.Object) (HandBack, error) {
	var back HandBack
	recorded := p.handledStateOf(o)
	if p.ReplacedAnnotation == "" || len(recorded) == 0 {
		return back, nil
	}
	annotations, status := p.removedRecords(o)
	annotations = object.CombinePatches(annotations, map[string]any{})
	if o.Field(p.annotationPath()...) != nil {
		annotations[p.HandledAnnotation] = nil
	}
	switch {
	case o.Field("metadata", "annotations", p.ReplacedAnnotation) != nil:
		// The former controller's own is still there.
	case p.hasHandled(recorded, o):
		state, err := json.Marshal(p.formerState(o))
		if err != nil {
			return back, err
		}
		annotations[p.ReplacedAnnotation] = string(state) + "\n"
	default:
		back.Outdated = true
	}
	metadata := precondition(o, true)
	metadata["annotations"] = annotations
	var err error
	if back.Object, err = json.Marshal(map[string]any{"metadata": metadata}); err != nil {
		return back, err
	}
	if p.HandledStatusKey != "" && o.Field(p.statusPath()...) != nil {
		status = object.CombinePatches(status, map[string]any{p.HandledStatusKey: nil})
	}
	if status != nil {
		back.Status, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": o.UID()}, statusPart: map[string]any{HandledStatusField: status},
		})
	}
	return back, err
}

// hasHandled reports whether all handlers have handled the object as it is. A change is nothing to handlers that are not
// for updates: what they have seen is as it was at the creation.
func (p *Program) hasHandled(recorded handledState, o *object.Object) bool {
	for i, watched := range p.watchedDigests(o) {
		h := &p.Handlers[i]
		e := recorded[h.Name]
		if e.InProgress != "" || e.Progress != "" || e.Digest != "" && e.Digest != watched && h.handles(hook.ReasonUpdate) {
			return false
		}
	}
	return true
}

// formerState returns an object as a former controller of the same handlers keeps it: what is
// watched by default, and the fields of the status that handlers watch.
func (p *Program) formerState(o *object.Object) map[string]any {
	state := watchableFields(o)
	for i := range p.Handlers {
		removeBookkeeping(state, p.Handlers[i].IgnoredAnnotations...)
		for _, path := range p.Handlers[i].Fields {
			if text := o.Field(path...); text != nil && path[0] == statusPart {
				object.SetField(state, json.RawMessage(text), path...)
			}
		}
	}
	return state
}
