package explore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Invariant is an expression of an author that must hold. Exactly one of the expressions is set.
type Invariant struct {
	Name string `json:"name"`
	// Always holds in every state, Never in none, and Eventually in every state of rest. Their variables are lists:
	// children are objects with a controller, parents all others but Namespaces and Externals, and objects are all.
	Always     string `json:"always,omitempty"`
	Never      string `json:"never,omitempty"`
	Eventually string `json:"eventually,omitempty"`
	// Step holds between each state and the next one. Its variables before and after have the lists.
	Step string `json:"step,omitempty"`
	// Func is a function in place of the expression that is set, which is its description. It gets the values of the
	// variables and returns what is wrong.
	Func func(values map[string]any) error `json:"-"`
}

// compiled is an Invariant that can be evaluated.
type compiled struct {
	Invariant

	holds expression.Predicate
}

// finding says that an invariant does not hold.
func (c *compiled) finding(err error) finding {
	f := finding{property: Property(c.Name)}
	switch {
	case err != nil && c.Func != nil:
		f.text = err.Error()
	case err != nil:
		f.text = "the expression cannot be evaluated: " + err.Error()
	case c.Never != "":
		f.text = "it must never be so: " + c.Never
	case c.Eventually != "":
		f.text = "it is not so at rest: " + c.Eventually
	default:
		f.text = "it is not so: " + c.Always + c.Step
	}
	return f
}

// CheckInvariants compiles invariants. Its errors name the field, and line and column in it.
func CheckInvariants(invariants []Invariant) error {
	_, err := compileInvariants(invariants)
	return err
}

func compileInvariants(invariants []Invariant) ([]*compiled, error) {
	var all []*compiled
	var errs []error
	names := map[string]bool{}
	for i, one := range invariants {
		c, err := one.compile()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("invariants[%d]%w", i, err))
		case names[one.Name]:
			errs = append(errs, fmt.Errorf("invariants[%d].name: %q is the name of an earlier one", i, one.Name))
		}
		names[one.Name] = true
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

func (i Invariant) compile() (*compiled, error) {
	fields := []struct{ name, source string }{{"always", i.Always}, {"never", i.Never}, {"eventually", i.Eventually}, {"step", i.Step}}
	field, source := "", ""
	for _, f := range fields {
		if f.source == "" {
			continue
		}
		if field != "" {
			return nil, fmt.Errorf(": has %s and %s; an invariant has one of always, never, eventually and step", field, f.name)
		}
		field, source = f.name, f.source
	}
	switch {
	case i.Name == "":
		return nil, errors.New(".name: is required")
	case field == "":
		return nil, errors.New(": has no expression; set one of always, never, eventually and step")
	}
	if i.Func != nil {
		return &compiled{i, func(values map[string]any) (bool, error) {
			err := i.Func(values)
			return err == nil, err
		}}, nil
	}
	variables := []string{"parents", "children", "objects"}
	if field == "step" {
		variables = []string{"before", "after"}
	}
	holds, err := expression.CompileInvariant(source, variables...)
	if err != nil {
		return nil, fmt.Errorf(".%s: %w", field, err)
	}
	return &compiled{i, holds}, nil
}

// lists returns what expressions read of what is stored.
func (s *stored) lists() map[string]any {
	parents, children, objects := []json.RawMessage{}, []json.RawMessage{}, []json.RawMessage{}
	for _, at := range s.slots {
		switch {
		case at.version == nil:
			continue
		case isControlled(at.version.object):
			children = append(children, at.version.object.JSON())
		case !isFrame(at.name.ref.GroupKind()):
			parents = append(parents, at.version.object.JSON())
		}
		objects = append(objects, at.version.object.JSON())
	}
	return map[string]any{"parents": parents, "children": children, "objects": objects}
}

// isFrame reports whether objects of a kind are no parents: users do not keep them.
func isFrame(kind object.GroupKind) bool {
	return kind == object.Namespaces.GroupKind() || kind == loop.ExternalKind.GroupKind()
}

// document returns the lists as one JSON object.
func (s *stored) document() json.RawMessage {
	lists := s.lists()
	var text bytes.Buffer
	for i, name := range []string{"parents", "children", "objects"} {
		text.WriteString([]string{"{", ",", ","}[i] + `"` + name + `":[`)
		text.Write(bytes.Join(rawOf(lists[name].([]json.RawMessage)), []byte(",")))
		text.WriteString("]")
	}
	text.WriteString("}")
	return text.Bytes()
}

func rawOf(values []json.RawMessage) [][]byte {
	all := make([][]byte, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// broken returns the invariants on states that do not hold; at rest those on rest.
func (e *engine) broken(at *stored, rest bool) []finding {
	var all []finding
	lists := at.lists()
	for _, c := range e.invariants {
		if c.Step != "" || (c.Eventually != "") != rest {
			continue
		}
		holds, err := c.holds(lists)
		if err != nil || holds == (c.Never != "") {
			all = append(all, c.finding(err))
		}
	}
	return all
}

// brokenIn returns the invariants that do not hold in a state.
func (e *engine) brokenIn(at *stored) []finding {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.broken == nil {
		all := e.broken(at, false)
		at.broken = &all
	}
	return *at.broken
}

// brokenBetween returns the invariants that a step breaks: those on states after it, and those on steps.
func (e *engine) brokenBetween(before, after *stored) []finding {
	all := e.brokenIn(after)
	if !e.hasSteps {
		return all
	}
	pair := [2]uint32{before.id, after.id}
	if known, found := e.pairs.Load(pair); found {
		return slices.Concat(all, known.([]finding))
	}
	more := e.brokenStep(before, after)
	e.pairs.Store(pair, more)
	return slices.Concat(all, more)
}

// brokenStep returns the invariants on steps that one breaks.
func (e *engine) brokenStep(before, after *stored) []finding {
	var all []finding
	values := map[string]any{"before": before.document(), "after": after.document()}
	for _, c := range e.invariants {
		if c.Step == "" {
			continue
		}
		if holds, err := c.holds(values); err != nil || !holds {
			all = append(all, c.finding(err))
		}
	}
	return all
}

// going is a child that goes while another one of its kind and parent stays, in the life of the parent or in its deletion.
type going struct {
	goes, stays *name
	parent      object.Owner
	deleting    bool
}

// suggested returns invariants that hold in what was explored without faults: which of two children goes first. Only an author
// knows whether it is meant. There is one for each kind and parent, in its life and in its deletion.
func (s *search) suggested() []Invariant {
	seen, looked := map[going]bool{}, map[[2]uint32]bool{}
	for i := range s.nodes {
		from := s.nodes[i].state.stored
		for _, e := range s.nodes[i].edges {
			to := &s.nodes[e.to].state
			if step := [2]uint32{from, to.stored}; to.spent.faults == 0 && !looked[step] {
				looked[step] = true
				addGoing(seen, s.stores.at(from), s.stores.at(to.stored))
			}
		}
	}
	var first []going
	for _, g := range slices.SortedFunc(maps.Keys(seen), compareGoing) {
		reverse := going{g.stays, g.goes, g.parent, g.deleting}
		if !seen[reverse] && !slices.ContainsFunc(first, g.isLike) {
			first = append(first, g)
		}
	}
	all := make([]Invariant, len(first))
	for i, g := range first {
		all[i] = g.invariant()
	}
	return all
}

// addGoing adds the children that a step removes, with those that stay.
func addGoing(seen map[going]bool, before, after *stored) {
	for _, at := range before.slots {
		if at.version == nil || after.get(at.name).version != nil {
			continue
		}
		owner, _ := at.version.object.Controller()
		isOwner := func(one slot) bool { return one.version != nil && one.version.object.UID() == owner.UID }
		parent := slices.IndexFunc(before.slots, isOwner)
		for _, other := range after.slots {
			isSibling := other.version != nil && compareKinds(other.name.ref, at.name.ref) == 0 &&
				other.version.object.ControlledBy(owner.UID)
			if parent >= 0 && isSibling {
				seen[going{at.name, other.name, owner, before.slots[parent].version.object.Deleting()}] = true
			}
		}
	}
}

func compareGoing(a, b going) int {
	return cmp.Or(compareNames(a.goes, b.goes), compareNames(a.stays, b.stays))
}

// isLike reports whether two are of one kind and parent, at one time.
func (g going) isLike(other going) bool {
	return compareKinds(g.goes.ref, other.goes.ref) == 0 && g.parent == other.parent && g.deleting == other.deleting
}

func (g going) invariant() Invariant {
	when, not := "in its life", "!"
	if g.deleting {
		when, not = "in its deletion", ""
	}
	child := func(n *name) string {
		return fmt.Sprintf("children.exists(c, c.kind == '%s' && c.metadata.name == '%s')", n.ref.Kind.Kind, n.ref.Name)
	}
	return Invariant{
		Name: fmt.Sprintf("%s of %s goes before %s %s", g.goes.ref.Name, g.parent.Name, g.stays.ref.Name, when),
		Step: fmt.Sprintf("!before.objects.exists(p, p.kind == '%s' && p.metadata.name == '%s' && %shas(p.metadata.deletionTimestamp))",
			g.parent.Kind, g.parent.Name, not) +
			" || !before." + child(g.stays) + " || after." + child(g.stays) + " || !after." + child(g.goes),
	}
}

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
