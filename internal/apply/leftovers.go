package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Some fields exclude each other: the members of a union, such as the sources of a volume, or a default that belongs to
// a previous value, such as strategy.rollingUpdate beside the type Recreate. The server then rejects a write that sets
// one and leaves the other, which goes with the write, unless another manager holds it.

// updateWithoutLeftovers sends the object of a write as an update without the fields that are null in the response, and
// without the undesired ones for which the server rejected the write. It returns that error if there are none.
func (w *Writer) updateWithoutLeftovers(ctx context.Context, a plan.Action, rejected error) (*object.Object, error) {
	paths := invalidPaths(rejected)
	if rejected != nil && len(paths) == 0 {
		return nil, rejected
	}
	body, live, err := w.readOwners(ctx, a, "application/json")
	switch {
	case Conflict(err): // It was replaced, and what was rejected was about another object.
		return nil, err
	case err != nil:
		return nil, errors.Join(rejected, err)
	}
	if a.Manager = managerOr(a.Manager); a.Verb == plan.Apply && a.TakeOver == nil {
		a.TakeOver = ownFields(a.Manager)
	}
	l := leftovers{action: a, live: live}
	without, err := l.removed(body, paths)
	if err != nil || !l.any {
		return nil, cmp.Or(err, l.heldError(rejected))
	}
	put := update(a.Resource, without)
	put.manager = a.Manager
	stored, err := w.send(ctx, put)
	switch {
	case apierrors.IsInvalid(err) && rejected == nil:
		return w.updateWithoutLeftovers(ctx, a, err)
	case apierrors.IsInvalid(err):
		return nil, l.heldError(rejected)
	}
	return stored, err
}

// leftovers removes the leftovers that no other manager holds from an object.
type leftovers struct {
	action plan.Action
	live   *managedMetadata
	// any means that a field was removed.
	any bool
	// held is about the first that another manager holds; nil if there is none.
	held *HeldFieldError
}

// removed returns the object that the write would store without the leftovers at paths.
func (l *leftovers) removed(body []byte, paths [][]string) (*object.Object, error) {
	a, after := l.action, l.action.After
	if a.Verb == plan.Apply {
		var err error
		if after, l.any, err = l.live.applied(body, a); err != nil {
			return nil, err
		}
	}
	have, err := object.Decode(after.JSON())
	if err != nil {
		return nil, err
	}
	want, err := object.Decode(cmp.Or(a.Want, a.After).JSON())
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		l.removeMember(have, want, path, nil)
	}
	l.any = plan.RemoveNulls(have, want) || l.any
	return object.Encode(have)
}

// invalidPaths returns the paths of the fields for which the server rejects an object, but those that may never change.
func invalidPaths(err error) (paths [][]string) {
	if !apierrors.IsInvalid(err) {
		return nil
	}
	status, known := errors.AsType[*apierrors.StatusError](err)
	if !known || status.ErrStatus.Details == nil {
		return nil
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if strings.Contains(cause.Message, "immutable") || strings.Contains(cause.Message, "may not change") {
			continue
		}
		path := cause.Field
		if path == "" || path == "<nil>" {
			// The validation of a schema names the field in its message.
			_, quoted, _ := strings.Cut(cause.Message, `: "`)
			path, _, _ = strings.Cut(quoted, `" must validate`)
		}
		names := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
		if len(names) > 0 && names[0] != "metadata" && names[0] != "status" {
			paths = append(paths, names)
		}
	}
	return paths
}

// step leads from a value to one below it: to a member, or to an item of a list.
type step struct {
	name  string
	index int
	item  any
}

func (l *leftovers) removeBelow(have, want any, path []string, at []step) any {
	switch have := have.(type) {
	case map[string]any:
		wanted, _ := want.(map[string]any)
		l.removeMember(have, wanted, path, at)
	case []any:
		wanted, _ := want.([]any)
		return l.removeItems(have, wanted, path[1:], at)
	}
	return have
}

// removeMember removes what excludes the member at a path: itself if it is not desired, else the undesired beside it.
func (l *leftovers) removeMember(have, want map[string]any, path []string, at []step) {
	name := path[0]
	below := append(slices.Clip(at), step{name: name})
	switch value, exists := have[name]; {
	case !exists:
	case want[name] == nil:
		l.drop(have, name, below)
	case len(path) > 1:
		have[name] = l.removeBelow(value, want[name], path[1:], below)
	default:
		l.removeUndesired(value, want[name], below)
		if _, isUnion := value.(map[string]any); isUnion && len(at) > 0 {
			l.removeUndesired(have, want, at)
		}
	}
}

func (l *leftovers) removeUndesired(have, want any, at []step) {
	members, _ := have.(map[string]any)
	wanted, _ := want.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if wanted[name] == nil {
			l.drop(members, name, append(slices.Clip(at), step{name: name}))
		}
	}
}

func (l *leftovers) drop(members map[string]any, name string, at []step) {
	if !l.isHeld(at) {
		delete(members, name)
		l.any = true
	}
}

// removeItems removes the items that are not desired, and what excludes fields of the others. The
// index in the path does not matter: the server may have counted the items in another order.
func (l *leftovers) removeItems(have, want []any, path []string, at []step) []any {
	same := plan.PairItems(have, want, object.ApplyKeys(l.action.Resource.Group))
	left := make([]any, 0, len(have))
	for i, item := range have {
		below := append(slices.Clip(at), step{index: i, item: item})
		switch {
		case same[i] != nil && len(path) > 0:
			left = append(left, l.removeBelow(item, same[i], path, below))
		case same[i] != nil || l.isHeld(below):
			left = append(left, item)
		default:
			l.any = true
		}
	}
	return left
}

// isHeld reports whether another manager holds a field, and notes the first that one does.
func (l *leftovers) isHeld(at []step) bool {
	for i, e := range l.live.ManagedFields {
		if l.action.Manages(e.Manager) {
			continue
		}
		keys, holds := e.FieldsV1.find(at)
		if !holds {
			continue
		}
		if l.held == nil {
			l.held = &HeldFieldError{Manager: e.Manager, Path: pathText(at), Command: l.releaseCommand(i, keys)}
		}
		return true
	}
	return false
}

// find returns the path elements that lead to a field, and whether the manager owns it or one below.
func (o FieldSet) find(at []step) (keys []string, owned bool) {
	for _, s := range at {
		key := "f:" + s.name
		if s.name == "" {
			key, _ = o.findItem(s.item)
		}
		below, given := o[key]
		if !given {
			return nil, false
		}
		keys, o = append(keys, key), below
	}
	return keys, true
}

func pathText(at []step) (text string) {
	for _, s := range at {
		if s.name == "" {
			text += "[" + strconv.Itoa(s.index) + "]"
			continue
		}
		text = object.JoinPath(text, s.name)
	}
	return text
}

// heldError adds the field that another manager holds to the error of the server.
func (l *leftovers) heldError(rejected error) error {
	if l.held == nil {
		return rejected
	}
	l.held.Err = rejected
	return l.held
}

// releaseCommand returns the command after which the manager of an entry of the managed fields no longer holds the field
// to which keys lead there. It removes the field from the managed fields, and the fields above that have no other members.
func (l *leftovers) releaseCommand(index int, keys []string) string {
	a, manager, fields := l.action, l.live.ManagedFields[index].Manager, l.live.ManagedFields[index].FieldsV1
	entry := "/metadata/managedFields/" + strconv.Itoa(index)
	released, path := entry, entry+"/fieldsV1"
	for _, key := range keys {
		path += "/" + escapePointer.Replace(key)
		if len(fields.elements()) > 1 {
			released = path
		}
		fields = fields[key]
	}
	operations := []jsonPatchOp{{"test", entry + "/manager", manager}, {Op: "remove", Path: released}}
	edits, _ := json.Marshal(operations) //nolint:errchkjson // These are texts.
	command := "kubectl patch " + a.Resource.GroupResource() + " " + a.Ref.Name
	if a.Ref.Namespace != "" {
		command += " -n " + a.Ref.Namespace
	}
	return command + " --type=json -p '" + strings.ReplaceAll(string(edits), "'", `'\''`) + "'"
}

// HeldFieldError says that the server rejects a write for a field that is not desired and that another manager holds.
type HeldFieldError struct {
	// Manager holds the field at Path. After Command it does not, and the next write removes the field.
	Manager, Path, Command string
	// Err is the error of the server.
	Err error
}

func (e *HeldFieldError) Error() string {
	return fmt.Sprintf("%v; field manager %q holds %s, so it stays; to give it up, run: %s", e.Err, e.Manager, e.Path, e.Command)
}

func (e *HeldFieldError) Unwrap() error { return e.Err }

// Fault classifies the error.
func (e *HeldFieldError) Fault() *failure.Fault {
	return &failure.Fault{Kind: failure.FieldHeld, Path: e.Path}
}
