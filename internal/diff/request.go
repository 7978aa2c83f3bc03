package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fate is what became of an object between two requests.
type Fate string

// The fates.
const (
	// Changed objects have other fields.
	Changed Fate = "changed"
	// Going objects were asked to go since.
	Going Fate = "is being deleted"
	// Appeared objects were not there before, Gone ones are not there any more.
	Appeared Fate = "appeared"
	Gone     Fate = "is gone"
	// Replaced objects are others of the same name.
	Replaced Fate = "was replaced by another of its name"
)

// Part is one object that a request shows in another way than the one before.
type Part struct {
	// Role is "object" for the one that is asked about, "child" or "related", or
	// "controller".
	Role   string
	Object inspect.Ref
	Fate   Fate
	// Changes are the fields, of an object that Changed or was Replaced.
	Changes []inspect.Change
	// Before and After are the object; empty where there is none.
	Before, After json.RawMessage
}

// request is what all questions to hooks and handlers have in them, whatever they
// call it.
type request struct {
	Controller  json.RawMessage `json:"controller"`
	Parent      json.RawMessage `json:"parent"`
	Object      json.RawMessage `json:"object"`
	Children    groups          `json:"children"`
	Attachments groups          `json:"attachments"`
	Owned       groups          `json:"owned"`
	Related     groups          `json:"related"`
}

// groups are objects by kind, and by name within it.
type groups map[string]map[string]json.RawMessage

// ErrTooLarge is returned for requests that are not compared, for their size.
var ErrTooLarge = errors.New("too large to be compared")

// Requests says which objects one request to a hook shows in another way than an
// earlier one: the object that it is about first, then children, then related ones.
func Requests(before, after json.RawMessage) ([]Part, error) {
	left, err := readRequest(before)
	if err != nil {
		return nil, err
	}
	right, err := readRequest(after)
	if err != nil {
		return nil, err
	}
	var found []Part
	found = appendPart(found, "object", left.subject(), right.subject())
	found = appendGroups(found, "child", left.children(), right.children())
	found = appendGroups(found, "related", left.Related, right.Related)
	return appendPart(found, "controller", left.Controller, right.Controller), nil
}

func readRequest(text json.RawMessage) (r request, err error) {
	if len(text) > 4*MaxBytes {
		return r, fmt.Errorf("a request of %d MiB: %w", len(text)>>20, ErrTooLarge)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read a request: %w", err)
	}
	return r, nil
}

func (r *request) subject() json.RawMessage {
	if len(r.Parent) > 0 {
		return r.Parent
	}
	return r.Object
}

func (r *request) children() groups {
	for _, each := range []groups{r.Children, r.Attachments} {
		if each != nil {
			return each
		}
	}
	return r.Owned
}

func appendGroups(to []Part, role string, before, after groups) []Part {
	for _, kind := range namesOf(before, after) {
		for _, name := range namesOf(before[kind], after[kind]) {
			to = appendPart(to, role, before[kind][name], after[kind][name])
		}
	}
	return to
}

func namesOf[V any](a, b map[string]V) []string {
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	return slices.Compact(names)
}

// appendPart adds an object if it differs in anything that is worth telling.
func appendPart(to []Part, role string, before, after json.RawMessage) []Part {
	if bytes.Equal(before, after) {
		return to
	}
	left, errLeft := read(before)
	right, errRight := read(after)
	if errLeft != nil || errRight != nil || left == nil && right == nil {
		return to
	}
	part := Part{Role: role, Before: before, After: after, Fate: fateOf(left, right)}
	part.Object = refOf(right)
	if right == nil {
		part.Object = refOf(left)
	}
	if part.Fate == Changed || part.Fate == Replaced || part.Fate == Going {
		// Two objects that were read can be compared.
		part.Changes, _ = fields(left, right)
	}
	if part.Fate == Changed && len(part.Changes) == 0 {
		return to
	}
	return append(to, part)
}

func fateOf(before, after *object.Object) Fate {
	switch {
	case before == nil:
		return Appeared
	case after == nil:
		return Gone
	case before.UID() != after.UID():
		return Replaced
	case !before.Deleting() && after.Deleting():
		return Going
	}
	return Changed
}

func refOf(o *object.Object) (ref inspect.Ref) {
	if o == nil {
		return ref
	}
	group, version, found := strings.Cut(o.APIVersion(), "/")
	if !found {
		group, version = "", o.APIVersion()
	}
	ref.Kind = inspect.Kind{Group: group, Version: version, Kind: o.Kind(), Namespaced: o.Namespace() != ""}
	ref.Namespace, ref.Name, ref.UID = o.Namespace(), o.Name(), o.UID()
	return ref
}
