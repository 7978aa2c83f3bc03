package plan

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// systemFields are the fields of metadata that are the system's: a desired object has
// no say in them.
var systemFields = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// AppliedAnnotation is the annotation by which server-side apply notices that a field was
// dropped from the wish.
const AppliedAnnotation = "setpoint.dev/applied"

// lastAppliedAnnotations are the annotations in which controllers remember what they applied
// to a child, whatever their group and strategy.
var lastAppliedAnnotations = []string{AppliedAnnotation, "metacontroller.k8s.io/last-applied-configuration", "setpoint.dev/applied-fields"}

// lastAppliedKeys are the annotations that remember a wish of a merge, the family's own
// first: the child may have been another controller's.
func (f *Planner) lastAppliedKeys() []string {
	keys := []string{f.LastApplied}
	for _, key := range lastAppliedAnnotations[1:] {
		if key != f.LastApplied {
			keys = append(keys, key)
		}
	}
	return keys
}

// desiredFields is what a desired child asks for.
type desiredFields struct {
	// fields are what to set, without nulls.
	fields map[string]any
	// status is for a new object only; an existing one has its own.
	status any
}

// desiredFieldsOf reads a desired child. Hooks are free to hand back what they were
// shown, so what they have no say in is no part of the wish: above all not the
// memory of former wishes, which would grow with every turn.
func (f *Planner) desiredFieldsOf(desired *object.Object) (desiredFields, error) {
	fields, err := tree(desired.JSON())
	if err != nil {
		return desiredFields{}, err
	}
	status := fields["status"]
	f.strip(fields)
	unfoldStringData(fields)
	return desiredFields{fields: fields, status: status}, nil
}

// unfoldStringData does in a Secret what the server does: it never shows
// stringData again, and so that could be neither compared nor removed. One that
// is wrong stays, since the server has words for that.
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

// encodeLastApplied is what a merge remembers of a wish, and text the same as it stands in
// the object it is applied to: alike whatever order a hook gives its members in.
func (f *Planner) encodeLastApplied(w desiredFields) (lastAppliedFields map[string]any, text string, err error) {
	lastAppliedFields = w.fields
	if f.OmitValues {
		lastAppliedFields = objectFieldSet(w.fields, false)
	}
	data, err := json.Marshal(lastAppliedFields)
	return lastAppliedFields, string(data), err
}

// strip removes from a tree all that is not for a hook to say.
func (f *Planner) strip(fields map[string]any) {
	withoutNulls(fields)
	delete(fields, "status")
	metadata, _ := fields["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return slices.Contains(systemFields, name) })
	if annotations, _ := metadata["annotations"].(map[string]any); f.dropLastApplied(annotations) {
		removeIfEmpty(metadata, "annotations", len(annotations))
	}
	if owners, isList := metadata["ownerReferences"].([]any); isList {
		owners = otherOwners(owners, f.Parent.UID())
		metadata["ownerReferences"] = owners
		removeIfEmpty(metadata, "ownerReferences", len(owners))
	}
}

// dropLastApplied removes from annotations what controllers remember in them, and says
// whether there was anything.
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

// otherOwners are the owners but the parent, each once.
func otherOwners(owners []any, parent string) []any {
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

// lastApplied is what the observed object says was applied to it by a merge, and
// the annotation that says so; nothing where that is missing or was spoilt by
// hand.
func (f *Planner) lastApplied(observed map[string]any) (last map[string]any, key string) {
	annotations, _ := member(observed, "metadata", "annotations").(map[string]any)
	for _, key := range f.lastAppliedKeys() {
		text, _ := annotations[key].(string)
		if last, err := tree([]byte(text)); err == nil {
			f.strip(last)
			unfoldStringData(last)
			return last, key
		}
	}
	return nil, ""
}

// setLastApplied writes what is being applied into the object's annotation, in place of
// whatever was remembered before.
func (f *Planner) setLastApplied(fields map[string]any, applied string) {
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	record := maps.Clone(annotations)
	f.dropLastApplied(record)
	metadata["annotations"] = record
	setAnnotation(fields, f.LastApplied, applied)
}

// setAnnotation sets an annotation. The annotations there are must be the caller's to
// change.
func setAnnotation(fields map[string]any, key, value string) {
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[key] = value
}

// tree decodes a JSON object; integers stay integers.
func tree(data []byte) (map[string]any, error) {
	var t map[string]any
	err := utiljson.Unmarshal(data, &t)
	return t, err
}

func objectOf(fields map[string]any) (*object.Object, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}
