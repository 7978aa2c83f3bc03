package plan

import (
	"encoding/json"
	"maps"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// system are the fields of metadata that are the system's: a desired object has
// no say in them.
var system = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// memories are the annotations in which controllers of either group remember
// what they applied to a child.
var memories = []string{"metacontroller.k8s.io/last-applied-configuration", "setpoint.dev/applied-fields", Applied}

// Applied is the annotation by which server-side apply notices that a field was
// dropped from the wish.
const Applied = "setpoint.dev/applied"

// wish is what a desired child asks for.
type wish struct {
	// fields are what to set, without nulls.
	fields map[string]any
	// memory is what is remembered of them, and text the same as it stands in
	// the object they are applied to: alike whatever order a hook gives its
	// members in.
	memory map[string]any
	text   string
	// status is for a new object only; an existing one has its own.
	status any
}

// wishOf reads a desired child. Hooks are free to hand back what they were
// shown, so what they have no say in is no part of the wish: above all not the
// memory of former wishes, which would grow with every turn.
func (f *Family) wishOf(desired *object.Object) (wish, error) {
	fields, err := tree(desired.JSON())
	if err != nil {
		return wish{}, err
	}
	status := fields["status"]
	f.strip(fields)
	memory := fields
	if f.Outline {
		memory = outlineObject(fields, false)
	}
	text, err := json.Marshal(memory)
	return wish{fields: fields, memory: memory, text: string(text), status: status}, err
}

// strip removes from a tree all that is not for a hook to say.
func (f *Family) strip(fields map[string]any) {
	withoutNulls(fields)
	delete(fields, "status")
	metadata, _ := fields["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return slices.Contains(system, name) })
	if annotations, _ := metadata["annotations"].(map[string]any); annotations[f.LastApplied] != nil {
		delete(annotations, f.LastApplied)
		removeIfEmpty(metadata, "annotations", len(annotations))
	}
	if owners, isList := metadata["ownerReferences"].([]any); isList {
		owners = others(owners, f.Parent.UID())
		metadata["ownerReferences"] = owners
		removeIfEmpty(metadata, "ownerReferences", len(owners))
	}
}

func removeIfEmpty(members map[string]any, name string, length int) {
	if length == 0 {
		delete(members, name)
	}
}

// others are the owners but the parent, each once.
func others(owners []any, parent string) []any {
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

// lastApplied is what the observed object says was applied to it; nothing where
// the annotation is missing or was spoilt by hand.
func (f *Family) lastApplied(observed map[string]any) map[string]any {
	metadata, _ := observed["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[f.LastApplied].(string)
	last, err := tree([]byte(text))
	if err != nil {
		return nil
	}
	f.strip(last)
	return last
}

// note writes what is being applied into the object's annotation.
func (f *Family) note(fields map[string]any, applied string) {
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	noted := make(map[string]any, len(annotations)+1)
	maps.Copy(noted, annotations)
	noted[f.LastApplied] = applied
	metadata["annotations"] = noted
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
