package plan

import (
	"encoding/base64"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// systemFields are the fields of metadata that the API server sets, and a desired object cannot.
var systemFields = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// AppliedAnnotation is the annotation by which server-side apply notices that a field is no longer
// desired.
const AppliedAnnotation = "setpoint.dev/applied"

// lastAppliedAnnotations are the annotations in which controllers of all groups and strategies
// store what they applied.
var lastAppliedAnnotations = []string{AppliedAnnotation, "metacontroller.k8s.io/last-applied-configuration", "setpoint.dev/applied-fields"}

// lastAppliedKeys returns the annotations with a last applied configuration. The planner's own
// comes first; the child may have belonged to another controller.
func (f *Planner) lastAppliedKeys() []string {
	keys := []string{f.LastApplied}
	for _, key := range lastAppliedAnnotations[1:] {
		if key != f.LastApplied {
			keys = append(keys, key)
		}
	}
	return keys
}

// desiredFields are the fields to set on a child.
type desiredFields struct {
	// fields has no nulls.
	fields map[string]any
	// recorded are the fields with their nulls. A null removes a field of the child when it is new.
	recorded map[string]any
	// status is for new objects only.
	status any
}

// desiredFieldsOf returns the fields of a desired child. It drops fields that hooks cannot set,
// because a hook may return an object as it got it. Otherwise the last applied configuration would
// contain itself and grow with each write.
func (f *Planner) desiredFieldsOf(desired *object.Object) (desiredFields, error) {
	fields, err := object.Decode(desired.JSON())
	if err != nil {
		return desiredFields{}, err
	}
	w := desiredFields{fields: fields, recorded: fields, status: fields["status"]}
	if hasNulls(fields) {
		w.recorded = runtime.DeepCopyJSON(fields)
		f.strip(w.recorded)
		unfoldStringData(w.recorded)
		metadata, _ := w.recorded["metadata"].(map[string]any)
		maps.DeleteFunc(metadata, func(_ string, value any) bool { return value == nil })
	}
	withoutNulls(fields)
	f.strip(fields)
	unfoldStringData(fields)
	return w, nil
}

// unfoldStringData moves stringData of a Secret to data, as the server does. The server never
// returns stringData, so it could be neither compared nor removed. Invalid values stay, and the
// server rejects them.
func unfoldStringData(fields map[string]any) {
	texts, isObject := fields["stringData"].(map[string]any)
	if !isObject || fields["kind"] != "Secret" || fields["apiVersion"] != "v1" {
		return
	}
	unfolded := map[string]any{}
	if data, isObject := fields["data"].(map[string]any); isObject {
		maps.Copy(unfolded, data)
	} else if fields["data"] != nil {
		return
	}
	for key, value := range texts {
		text, isText := value.(string)
		if !isText {
			return
		}
		unfolded[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(fields, "stringData")
	if len(unfolded) > 0 {
		fields["data"] = unfolded
	}
}

// encodeLastApplied returns the last applied configuration as a value and as canonical text.
func (f *Planner) encodeLastApplied(w desiredFields) (lastAppliedFields map[string]any, text string, err error) {
	lastAppliedFields = f.outline(w.recorded)
	data, err := json.Marshal(lastAppliedFields)
	return lastAppliedFields, string(data), err
}

// outline returns what is stored of applied fields.
func (f *Planner) outline(fields map[string]any) map[string]any {
	if f.OmitValues {
		return objectFieldSet(fields, false)
	}
	return fields
}

// strip removes the fields that a hook cannot set.
func (f *Planner) strip(fields map[string]any) {
	delete(fields, "status")
	metadata, _ := fields["metadata"].(map[string]any)
	RemoveSystemFields(metadata)
	if annotations, _ := metadata["annotations"].(map[string]any); f.dropLastApplied(annotations) {
		removeIfEmpty(metadata, "annotations", len(annotations))
	}
	if owners, isList := metadata["ownerReferences"].([]any); isList {
		owners = OtherOwners(owners, f.Parent.UID())
		metadata["ownerReferences"] = owners
		removeIfEmpty(metadata, "ownerReferences", len(owners))
	}
}

// RemoveSystemFields removes from metadata what the API server sets.
func RemoveSystemFields(metadata map[string]any) {
	for _, name := range systemFields {
		delete(metadata, name)
	}
}

// dropLastApplied removes the last applied configurations from annotations, and reports whether
// there were any.
func (f *Planner) dropLastApplied(annotations map[string]any) bool {
	before := len(annotations)
	delete(annotations, f.LastApplied)
	for _, key := range lastAppliedAnnotations {
		delete(annotations, key)
	}
	return len(annotations) < before
}

func removeIfEmpty(members map[string]any, name string, length int) {
	if length == 0 {
		delete(members, name)
	}
}

// OtherOwners returns the owners except for the parent, each once.
func OtherOwners(owners []any, parent string) []any {
	seen := map[any]bool{parent: true}
	var kept []any
	for _, owner := range owners {
		members, _ := owner.(map[string]any)
		uid, named := members["uid"].(string)
		if !named || !seen[uid] {
			kept = append(kept, owner)
		}
		seen[uid] = named || seen[uid]
	}
	return kept
}

// lastApplied returns the last applied configuration of an observed object, with nulls, and its annotation;
// nothing if it is missing or corrupt.
func (f *Planner) lastApplied(observed map[string]any) (last map[string]any, key string) {
	annotations, _ := object.FieldAt(observed, "metadata", "annotations").(map[string]any)
	for _, key := range f.lastAppliedKeys() {
		text, _ := annotations[key].(string)
		if last, err := object.Decode([]byte(text)); err == nil {
			f.strip(last)
			unfoldStringData(last)
			return last, key
		}
	}
	return nil, ""
}

// setLastApplied replaces the last applied configurations in the annotations.
func (f *Planner) setLastApplied(fields map[string]any, applied string) {
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	record := maps.Clone(annotations)
	f.dropLastApplied(record)
	metadata["annotations"] = record
	setAnnotation(fields, f.LastApplied, applied)
}

// setAnnotation sets an annotation in place.
func setAnnotation(fields map[string]any, key, value string) {
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[key] = value
}
