package explore

import (
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxComparedEnds bounds the comparison of ends for each field.
const maxComparedEnds = 500

// ineffective says which edited fields nothing depends on in any state of rest: a hook does not read them, or has kept their
// first values.
func (s *search) ineffective() []string {
	if len(s.ends.first) > maxComparedEnds {
		return nil
	}
	fields := map[object.Ref]map[string][]string{}
	for _, e := range s.options.Edits {
		if fields[e.Object] == nil {
			fields[e.Object] = map[string][]string{}
		}
		addPaths(fields[e.Object], nil, e.Patch)
	}
	var all []string
	for ref, paths := range fields {
		for path, names := range paths {
			if s.ends.ignore(ref.String(), names) {
				all = append(all, fmt.Sprintf("Edits of %s of %s never changed anything.", path, ref))
			}
		}
	}
	slices.Sort(all)
	return all
}

// ignore reports whether there are ends that differ in a field of an object, and whether all such ends are equal in all else.
func (e *ends) ignore(ref string, names []string) bool {
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
	for _, seed := range e.seeds {
		intent := maps.Clone(others[seed])
		delete(intent, "status")
		wanted[seed] = intent
	}
	return string(encoded(wanted)), string(encoded(field)), string(encoded(others))
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
