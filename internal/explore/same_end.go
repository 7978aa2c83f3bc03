package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// ends are the states of rest, by the final specs of what users keep.
type ends struct {
	first map[string]end
	// plain are objects without what depends on the way, by the number of their body.
	plain map[uint32]map[string]any
}

// end is the first state of rest that was found with some specs.
type end struct {
	node    uint32
	objects map[string]map[string]any
	// seeds are the names of those that users keep.
	seeds []string
}

func newEnds() *ends { return &ends{first: map[string]end{}, plain: map[uint32]map[string]any{}} }

// checkSameEnd compares a state of rest with the first one that has the same specs. After faults, traces of them may
// remain, so only states without are compared.
func (s *search) checkSameEnd(id uint32, at state) {
	if at.spent.faults > 0 {
		return
	}
	var specs strings.Builder
	var seeds []string
	objects := map[string]map[string]any{}
	for _, one := range at.stored.slots {
		if one.version == nil {
			continue
		}
		plain := s.ends.plainOf(one.version)
		objects[one.name.ref.String()] = plain
		if s.seeds[one.name] {
			seeds = append(seeds, one.name.ref.String())
			specs.WriteString(one.name.ref.String() + " " + strconv.FormatUint(uint64(s.intentOf(plain)), 10) + "\n")
		}
	}
	first, known := s.ends.first[specs.String()]
	if !known {
		s.ends.first[specs.String()] = end{id, objects, seeds}
		return
	}
	if text := differenceOf(first.objects, objects); text != "" {
		s.violated(finding{property: SameEnd, text: "with the same specs it also comes to rest otherwise: " +
			text}, s.path(id), -1).other = first.node
	}
}

// intentOf returns the number of what a user edits of an object.
func (s *search) intentOf(plain map[string]any) uint32 {
	intent := map[string]any{}
	for name, value := range plain {
		if name != "status" {
			intent[name] = value
		}
	}
	return s.bodies.add(append([]byte("intent "), encoded(intent)...), func(id uint32) *body { return &body{id: id} }).id
}

// plainOf returns an object without what depends on how it came about: identity, counters and times.
func (e *ends) plainOf(v *version) map[string]any {
	if plain, known := e.plain[v.body]; known {
		return plain
	}
	fields, err := object.Decode(v.object.JSON())
	if err != nil {
		panic("decode " + v.name.ref.String() + ": " + err.Error()) // It was parsed before.
	}
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
	for name := range annotations {
		if strings.HasPrefix(name, "setpoint.dev/") {
			delete(annotations, name)
		}
	}
	status, _ := fields["status"].(map[string]any)
	delete(status, handler.HandledStatusField)
	if v.object.Kind() == plan.ControllerRevisions.Kind {
		delete(fields, "revision") // It counts the revisions before, which may be gone.
	}
	withoutGenerations(fields)
	e.plain[v.body] = fields
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
	for _, ref := range sortedNames(first, second) {
		a, b := first[ref], second[ref]
		switch {
		case a == nil:
			return ref + " exists here, and did not there"
		case b == nil:
			return ref + " does not exist here, and did there"
		}
		if changed := object.Changes(a, b); len(changed) > 0 {
			return fmt.Sprintf("%s of %s is %s, and was %s there", changed[0].Path, ref, orAbsent(changed[0].To), orAbsent(changed[0].From))
		}
	}
	return ""
}

// maxValue is how much of a value a sentence has.
const maxValue = 40

func orAbsent(value []byte) string {
	switch text := []rune(string(value)); {
	case value == nil:
		return "absent"
	case len(text) > maxValue:
		return string(text[:maxValue]) + "…"
	default:
		return string(text)
	}
}

func sortedNames(first, second map[string]map[string]any) []string {
	var all []string
	for name := range first {
		all = append(all, name)
	}
	for name := range second {
		if _, both := first[name]; !both {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
