// Package outcome compares where controllers come to rest: equal specs must lead to equal objects, whatever the way, and fields
// that change nothing are worth a remark.
package outcome

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Set are the states of rest, by the final specs of what users keep.
type Set struct {
	first map[string]end
	// plain are objects without what depends on the way, by the number of their content.
	plain map[uint32]map[string]any
}

// end is the first state of rest that was found with some specs.
type end struct {
	node    uint32
	objects map[string]map[string]any
	// kept are the names of those that users keep.
	kept []string
}

// Object is an object of a state of rest.
type Object struct {
	*object.Object

	// Content is a number that differs if the object differs by more than its resource version.
	Content uint32
	// Kept is set if users keep the object.
	Kept bool
}

// New returns a set without states.
func New() *Set { return &Set{first: map[string]end{}, plain: map[uint32]map[string]any{}} }

// Add compares a state of rest with the first one that has the same specs. It returns how they differ; empty if they do not.
func (e *Set) Add(node uint32, all []Object) (first uint32, difference string) {
	var specs strings.Builder
	now := end{node: node, objects: map[string]map[string]any{}}
	for _, one := range all {
		plain, ref := e.plainOf(one), one.Ref().String()
		now.objects[ref] = plain
		if one.Kept {
			now.kept = append(now.kept, ref)
			specs.WriteString(ref + " " + string(phrase.JSON(intentOf(plain))) + "\n")
		}
	}
	was, known := e.first[specs.String()]
	if !known {
		e.first[specs.String()] = now
		return node, ""
	}
	return was.node, differenceOf(was.objects, now.objects)
}

// intentOf returns what a user edits of an object.
func intentOf(plain map[string]any) map[string]any {
	intent := maps.Clone(plain)
	delete(intent, "status")
	return intent
}

// plainOf returns an object without what depends on how it came about: identity, counters and times.
func (e *Set) plainOf(one Object) map[string]any {
	if plain, known := e.plain[one.Content]; known {
		return plain
	}
	fields := object.DecodeOrEmpty(one.JSON())
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		delete(metadata, name)
	}
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		if owner, is := owner.(map[string]any); is {
			delete(owner, "uid")
		}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(name string, _ any) bool { return strings.HasPrefix(name, "setpoint.dev/") })
	status, _ := fields["status"].(map[string]any)
	delete(status, lasthandled.StatusField)
	if one.Kind() == plan.ControllerRevisions.Kind {
		delete(fields, "revision") // It counts the revisions before, which may be gone.
	}
	withoutGenerations(fields)
	e.plain[one.Content] = fields
	return fields
}

// withoutGenerations removes all fields observedGeneration.
func withoutGenerations(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "observedGeneration")
		for _, below := range value {
			withoutGenerations(below)
		}
	case []any:
		for _, below := range value {
			withoutGenerations(below)
		}
	}
}

func differenceOf(first, second map[string]map[string]any) string {
	for _, ref := range lists.Keys(first, second) {
		a, b := first[ref], second[ref]
		switch {
		case a == nil:
			return ref + " exists here, and did not there"
		case b == nil:
			return ref + " does not exist here, and did there"
		}
		if changed := object.Changes(a, b); len(changed) > 0 {
			return fmt.Sprintf("%s of %s is %s, and was %s there", changed[0].Path, ref, phrase.Value(changed[0].To),
				phrase.Value(changed[0].From))
		}
	}
	return ""
}

// maxComparedEnds bounds the comparison of ends for each field.
const maxComparedEnds = 500

// Ineffective says which edited fields nothing depends on in any state of rest: a hook does not read them, or has kept their
// first values.
func (e *Set) Ineffective(edits []world.Edit) []string {
	if len(e.first) > maxComparedEnds {
		return nil
	}
	fields := map[object.Ref]map[string][]string{}
	for _, edit := range edits {
		if fields[edit.Object] == nil {
			fields[edit.Object] = map[string][]string{}
		}
		world.AddPaths(fields[edit.Object], nil, edit.Patch)
	}
	var all []string
	for ref, paths := range fields {
		for path, names := range paths {
			if e.ignore(ref.String(), names) {
				all = append(all, fmt.Sprintf("Edits of %s of %s never changed anything.", path, ref))
			}
		}
	}
	slices.Sort(all)
	return all
}

// ignore reports whether there are ends that differ in a field of an object, and whether all such ends are equal in all else.
func (e *Set) ignore(ref string, names []string) bool {
	type outcome struct{ value, rest string }
	firsts, differ := map[string]outcome{}, false
	for _, one := range e.first {
		if one.objects[ref] == nil {
			continue // It is deleted there.
		}
		specs, value, rest := one.split(ref, names)
		now := outcome{value, rest}
		first, known := firsts[specs]
		switch {
		case !known:
			firsts[specs] = now
		case first.rest != now.rest:
			return false
		case first.value != now.value:
			differ = true
		}
	}
	return differ
}

// split returns a field of an object, what users want besides, and all else that there is.
func (e *end) split(ref string, names []string) (specs, value, rest string) {
	others := maps.Clone(e.objects)
	field, without := take(others[ref], names)
	others[ref] = without
	wanted := map[string]any{}
	for _, seed := range e.kept {
		wanted[seed] = intentOf(others[seed])
	}
	return string(phrase.JSON(wanted)), string(phrase.JSON(field)), string(phrase.JSON(others))
}

// take returns a field of an object, and the object without it.
func take(of map[string]any, names []string) (field any, without map[string]any) {
	without = maps.Clone(of)
	field = without[names[0]]
	if len(names) == 1 {
		delete(without, names[0])
		return field, without
	}
	nested, is := field.(map[string]any)
	if !is {
		return nil, without
	}
	field, without[names[0]] = take(nested, names[1:])
	return field, without
}
