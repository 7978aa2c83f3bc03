package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/request"
)

type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// managedMetadata is the part of metadata that says who owns which fields.
type managedMetadata struct {
	UID             string               `json:"uid"`
	ResourceVersion string               `json:"resourceVersion"`
	Annotations     map[string]string    `json:"annotations"`
	ManagedFields   []managedFieldsEntry `json:"managedFields"`
}

// managedFieldsEntry has the fields that a manager owns by one operation.
type managedFieldsEntry struct {
	Manager     string          `json:"manager,omitempty"`
	Operation   string          `json:"operation,omitempty"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Time        json.RawMessage `json:"time,omitempty"`
	FieldsType  string          `json:"fieldsType,omitempty"`
	FieldsV1    FieldSet        `json:"fieldsV1,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
}

// FieldSet is a tree of fields as in fieldsV1: "f:spec" is a member, `k:{"name":"web"}` a list
// item, `v:"x"` a value in a set, and "." the list or object itself.
type FieldSet map[string]FieldSet

// self is the key of the list or object itself.
const self = "."

// The operations in managed fields.
const (
	operationApply  = "Apply"
	operationUpdate = "Update"
)

func (l *managedMetadata) transferEdits(manager string, t *plan.TakeOver) []jsonPatchOp {
	var edits []jsonPatchOp
	if entries, changed := transferFields(l.ManagedFields, manager, t); changed {
		edits = append(edits, jsonPatchOp{"replace", "/metadata/managedFields", entries})
	}
	for _, key := range t.RemoveAnnotations {
		if _, there := l.Annotations[key]; there {
			edits = append(edits, jsonPatchOp{Op: "remove", Path: "/metadata/annotations/" + escapePointer.Replace(key)})
		}
	}
	return edits
}

// transferFields moves the fields of previous managers to the manager.
func transferFields(entries []managedFieldsEntry, manager string, t *plan.TakeOver) (after []managedFieldsEntry, changed bool) {
	mine := managedFieldsEntry{Manager: manager, Operation: operationApply, FieldsType: "FieldsV1"}
	for _, e := range entries {
		if e.Subresource != "" {
			after = append(after, e)
			continue
		}
		taken, left := split(e, manager, t)
		if len(taken) > 0 {
			mine.APIVersion, mine.Time = e.APIVersion, e.Time
			mine.FieldsV1 = union(mine.FieldsV1, taken)
			changed = changed || e.Manager != manager || e.Operation != operationApply
		}
		if len(left) > 0 {
			e.FieldsV1 = left
			after = append(after, e)
		}
	}
	if len(mine.FieldsV1) > 0 {
		after = append(after, mine)
	}
	return after, changed
}

// split returns the fields of an entry that the manager takes, and those that stay.
func split(e managedFieldsEntry, manager string, t *plan.TakeOver) (taken, left FieldSet) {
	if e.Manager == manager && e.Operation == operationApply {
		return e.FieldsV1, nil
	}
	for _, from := range t.From {
		switch {
		case from.Name != e.Manager:
		case e.Operation == operationApply, !from.Shared:
			return e.FieldsV1, nil
		default:
			return splitMetadata(e.FieldsV1, t.Applied)
		}
	}
	return nil, e.FieldsV1
}

// splitMetadata leaves metadata that was not applied to other clients with the same manager name.
func splitMetadata(fields FieldSet, applied map[string]any) (taken, left FieldSet) {
	const metadata = "f:metadata"
	taken, left = maps.Clone(fields), FieldSet{}
	delete(taken, metadata)
	for name, items := range fields[metadata] {
		for item, below := range items {
			if item == self {
				continue
			}
			one := FieldSet{item: below}
			if _, given := items[self]; given {
				one[self] = FieldSet{}
			}
			if path := (FieldSet{metadata: {name: one}}); valueAt(applied[strings.TrimPrefix(name, "f:")], item) != nil {
				taken = union(taken, path)
			} else {
				left = union(left, path)
			}
		}
	}
	return taken, left
}

// Differs reports whether one of the fields has another value in one of two objects than in the other.
func (o FieldSet) Differs(before, after any) bool {
	for name, below := range o {
		if name == self {
			continue
		}
		left, right := valueAt(before, name), valueAt(after, name)
		if _, isEmpty := below[self]; len(below) == 0 || len(below) == 1 && isEmpty {
			if object.FirstDifference(left, right) != "" {
				return true
			}
		} else if below.Differs(left, right) {
			return true
		}
	}
	return false
}

// valueAt returns the member or the item that a path element leads to; nil if there is none.
func valueAt(value any, name string) (found any) {
	switch value := value.(type) {
	case map[string]any:
		found = value[strings.TrimPrefix(name, "f:")]
	case []any:
		found, _ = itemIn(value, name)
	}
	return found
}

func union(a, b FieldSet) FieldSet {
	all := FieldSet{}
	maps.Copy(all, a)
	for name, below := range b {
		all[name] = union(all[name], below)
	}
	return all
}

// pathElement is a path element in managed fields that refers to an item of a list.
type pathElement struct {
	text string
	// keys are those of an object, and value is a value in a set.
	keys  map[string]any
	value any
	below FieldSet
}

// newPathElement parses a path element. One that does not refer to an item matches none.
func newPathElement(text string, below FieldSet) pathElement {
	e := pathElement{text: text, below: below}
	kind, encoded, _ := strings.Cut(text, ":")
	var value any
	switch _ = json.Unmarshal([]byte(encoded), &value); kind {
	case "v":
		e.value = value
	case "k":
		e.keys, _ = value.(map[string]any)
	}
	return e
}

// elements returns the path elements below a field, except for the field itself.
func (o FieldSet) elements() []pathElement {
	all := make([]pathElement, 0, len(o))
	for text, below := range o {
		if text != self {
			all = append(all, newPathElement(text, below))
		}
	}
	return all
}

func (e pathElement) matches(item any) bool {
	members, isObject := item.(map[string]any)
	if e.keys == nil || !isObject {
		return e.value != nil && fmt.Sprint(e.value) == fmt.Sprint(item)
	}
	for key, value := range e.keys {
		if !matchesKey(key, value, members) {
			return false
		}
	}
	return true
}

// matchesKey treats a port without a protocol as TCP, as the API does. Other parts of a key may be absent.
func matchesKey(key string, value any, members map[string]any) bool {
	has, given := members[key]
	if !given && key == "protocol" {
		has, given = "TCP", true
	}
	return !given || fmt.Sprint(has) == fmt.Sprint(value)
}

func (o FieldSet) findItem(item any) (name string, known bool) {
	for _, e := range o.elements() {
		if e.matches(item) {
			return e.text, true
		}
	}
	return "", false
}

func itemIn(list []any, name string) (item any, found bool) {
	at := slices.IndexFunc(list, newPathElement(name, nil).matches)
	if at < 0 {
		return nil, false
	}
	return list[at], true
}

// ownFields takes over the fields that a manager owns by updates.
func ownFields(manager string) *plan.TakeOver {
	return &plan.TakeOver{From: []plan.PreviousManager{{Name: manager}}}
}

// takeOver transfers the fields of previous managers to the manager in managedFields, and removes
// their annotations. The apply that follows changes the rest. It returns the new resource version.
func (w *Writer) takeOver(ctx context.Context, a plan.Action) (version string, err error) {
	if a.TakeOver == nil {
		return a.Before.ResourceVersion(), nil
	}
	_, live, err := w.readOwners(ctx, a, request.Metadata)
	if err != nil {
		return "", err
	}
	if a.Verb == plan.Delete && live.ResourceVersion != a.Before.ResourceVersion() {
		return "", newConflict("the object has changed since it was read")
	}
	return w.takeOverFields(ctx, a, live)
}

func (w *Writer) takeOverFields(ctx context.Context, a plan.Action, live *managedMetadata) (version string, err error) {
	edits := live.transferEdits(managerOr(a.Manager), a.TakeOver)
	if len(edits) == 0 {
		return live.ResourceVersion, nil
	}
	// The resource version in the patch makes a concurrent change a conflict.
	body, err := json.Marshal(append(edits, jsonPatchOp{"replace", "/metadata/resourceVersion", live.ResourceVersion}))
	if err != nil {
		return "", err
	}
	patch := patchOf("take_over", types.JSONPatchType, a.Resource, a.Ref, body)
	patch.manager = a.Manager
	stored, err := w.send(ctx, patch)
	if err != nil {
		return "", fmt.Errorf("take over the fields of former managers: %w", err)
	}
	return stored.ResourceVersion(), nil
}

// readOwners reads an action's object, or its metadata, and the owners of its fields.
func (w *Writer) readOwners(ctx context.Context, a plan.Action, accept string) (body []byte, live *managedMetadata, err error) {
	get := read(a.Resource, a.Ref.Namespace, a.Ref.Name)
	get.accept = accept
	if body, err = w.do(ctx, get); err != nil {
		return nil, nil, fmt.Errorf("read its managed fields: %w", err)
	}
	live, err = parseManagedMetadata(body, a)
	return body, live, err
}

// parseManagedMetadata returns the owners of the fields of the object in a response, which is that of the action.
func parseManagedMetadata(body []byte, a plan.Action) (*managedMetadata, error) {
	var live struct{ Metadata managedMetadata }
	if err := json.Unmarshal(body, &live); err != nil {
		return nil, fmt.Errorf("read its managed fields: %w", err)
	}
	if a.Before != nil && live.Metadata.UID != a.Before.UID() {
		return nil, newConflict("the object was replaced by another one with the same name")
	}
	return &live.Metadata, nil
}
