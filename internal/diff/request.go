package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ChangeType is how an object changed between two requests.
type ChangeType string

// The change types.
const (
	// Modified objects have other fields.
	Modified ChangeType = "changed"
	// Terminating objects have a deletion timestamp.
	Terminating ChangeType = "terminating"
	// Added objects are new, Deleted ones are missing.
	Added   ChangeType = "added"
	Deleted ChangeType = "deleted"
	// Replaced objects have another UID.
	Replaced ChangeType = "replaced"
)

// ObjectChange is an object that differs between two requests.
type ObjectChange struct {
	// Role is "object" for the parent or handled object, "child", "related" or "controller".
	Role   string
	Object object.Ref
	Type   ChangeType
	// Changes are the changed fields, unless the object was added or deleted.
	Changes []inspect.Change
	// Before and After are the object; empty for none.
	Before, After json.RawMessage
}

// request has the objects of all requests to hooks and handlers, under any of their names.
type request struct {
	Controller  json.RawMessage `json:"controller"`
	Parent      json.RawMessage `json:"parent"`
	Object      json.RawMessage `json:"object"`
	Children    objectsByKind   `json:"children"`
	Attachments objectsByKind   `json:"attachments"`
	Owned       objectsByKind   `json:"owned"`
	Related     objectsByKind   `json:"related"`
}

// objectsByKind are objects by kind and name.
type objectsByKind map[string]map[string]json.RawMessage

// ErrTooLarge is returned for requests that are too large.
var ErrTooLarge = errors.New("too large to compare")

// Requests returns the objects that differ between two requests to a hook: its object first,
// then children, then related objects.
func Requests(before, after json.RawMessage) ([]ObjectChange, error) {
	left, err := readRequest(before)
	if err != nil {
		return nil, err
	}
	right, err := readRequest(after)
	if err != nil {
		return nil, err
	}
	var found []ObjectChange
	found = appendChange(found, "object", left.subject(), right.subject())
	found = appendChanges(found, "child", left.children(), right.children())
	found = appendChanges(found, "related", left.Related, right.Related)
	return appendChange(found, "controller", left.Controller, right.Controller), nil
}

func readRequest(text json.RawMessage) (r request, err error) {
	if len(text) > 4*MaxBytes {
		return r, fmt.Errorf("request of %d MiB: %w", len(text)>>20, ErrTooLarge)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("parse request: %w", err)
	}
	return r, nil
}

func (r *request) subject() json.RawMessage {
	if len(r.Parent) > 0 {
		return r.Parent
	}
	return r.Object
}

func (r *request) children() objectsByKind {
	for _, each := range []objectsByKind{r.Children, r.Attachments} {
		if each != nil {
			return each
		}
	}
	return r.Owned
}

func appendChanges(to []ObjectChange, role string, before, after objectsByKind) []ObjectChange {
	for _, kind := range lists.Keys(before, after) {
		for _, name := range lists.Keys(before[kind], after[kind]) {
			to = appendChange(to, role, before[kind][name], after[kind][name])
		}
	}
	return to
}

// appendChange appends an object if it differs.
func appendChange(to []ObjectChange, role string, before, after json.RawMessage) []ObjectChange {
	if bytes.Equal(before, after) {
		return to
	}
	left, errLeft := parseObject(before)
	right, errRight := parseObject(after)
	if errLeft != nil || errRight != nil || left == nil && right == nil {
		return to
	}
	change := ObjectChange{Role: role, Before: before, After: after, Type: changeTypeOf(left, right)}
	either := cmp.Or(right, left)
	change.Object = either.Ref()
	change.Object.UID = either.UID()
	if change.Type == Modified || change.Type == Replaced || change.Type == Terminating {
		// Both objects have been parsed.
		change.Changes, _ = fieldChanges(left, right)
	}
	if change.Type == Modified && len(change.Changes) == 0 {
		return to
	}
	return append(to, change)
}

func changeTypeOf(before, after *object.Object) ChangeType {
	switch {
	case before == nil:
		return Added
	case after == nil:
		return Deleted
	case before.UID() != after.UID():
		return Replaced
	case !before.Deleting() && after.Deleting():
		return Terminating
	}
	return Modified
}
