// Package property has what must hold in an exploration: the properties that every one checks, the invariants of authors, and
// which invariants hold in what was explored.
package property

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/lists"
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
func (c *compiled) finding(err error) Finding {
	f := Finding{Property: Property(c.Name)}
	switch {
	case err != nil && c.Func != nil:
		f.Text = err.Error()
	case err != nil:
		f.Text = "the expression cannot be evaluated: " + err.Error()
	case c.Never != "":
		f.Text = "it must never be so: " + c.Never
	case c.Eventually != "":
		f.Text = "it is not so at rest: " + c.Eventually
	default:
		f.Text = "it is not so: " + c.Always + c.Step
	}
	return f
}

// Set are invariants that can be evaluated.
type Set []*compiled

// HasSteps reports whether one of them is about steps.
func (s Set) HasSteps() bool {
	return slices.ContainsFunc(s, func(c *compiled) bool { return c.Step != "" })
}

// Compile returns invariants that can be evaluated. Its errors name the field, and line and column in it.
func Compile(invariants []Invariant) (Set, error) {
	var all Set
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

// listsOf returns what expressions read of what is stored.
func listsOf(stored *apiserver.State) map[string]any {
	parents, children, objects := []json.RawMessage{}, []json.RawMessage{}, []json.RawMessage{}
	for _, at := range stored.Entries {
		switch {
		case at.Object == nil:
			continue
		case world.IsControlled(at.Object):
			children = append(children, at.Object.JSON())
		case at.Ref.GroupKind() != object.Namespaces.GroupKind() && at.Ref.GroupKind() != loop.ExternalKind.GroupKind():
			parents = append(parents, at.Object.JSON())
		}
		objects = append(objects, at.Object.JSON())
	}
	return map[string]any{"parents": parents, "children": children, "objects": objects}
}

// Broken returns the invariants on states that do not hold; at rest those on rest.
func (s Set) Broken(stored *apiserver.State, rest bool) []Finding {
	var all []Finding
	values := listsOf(stored)
	for _, c := range s {
		if c.Step != "" || (c.Eventually != "") != rest {
			continue
		}
		holds, err := c.holds(values)
		if err != nil || holds == (c.Never != "") {
			all = append(all, c.finding(err))
		}
	}
	return all
}

// BrokenStep returns the invariants on steps that one breaks.
func (s Set) BrokenStep(before, after *apiserver.State) []Finding {
	var all []Finding
	values := map[string]any{"before": phrase.JSON(listsOf(before)), "after": phrase.JSON(listsOf(after))}
	for _, c := range s {
		if c.Step == "" {
			continue
		}
		if holds, err := c.holds(values); err != nil || !holds {
			all = append(all, c.finding(err))
		}
	}
	return all
}

// Property is a property that every exploration checks, or an invariant of an author.
type Property string

// The properties.
const (
	Deterministic Property = "Deterministic" // the same request gets the same response
	Settles       Property = "Settles"       // without further edits and faults, everything comes to rest
	Reconciled    Property = "Reconciled"    // at rest, no reconcile fails
	SameEnd       Property = "SameEnd"       // where it rests depends on the final specs alone
	Desired       Property = "Desired"       // at rest, one more reconcile writes nothing
	NoRecreate    Property = "NoRecreate"    // without an edit nothing is created, deleted and created again
	Owned         Property = "Owned"         // at rest, no child lacks its owner
	Finalized     Property = "Finalized"     // at rest, no object is being deleted
	Valid         Property = "Valid"         // no panic, no write that the API server rejects as invalid
	Quiet         Property = "Quiet"         // without an edit, one object is not written again and again
)

// Properties are all properties, in the order of reports.
var Properties = []Property{Deterministic, Valid, Settles, Reconciled, Desired, SameEnd, NoRecreate, Owned, Finalized, Quiet}

// Join returns properties in one line.
func Join(properties []Property) string {
	return strings.Join(lists.Map(properties, func(p Property) string { return string(p) }), ", ")
}

// Finding is something that does not hold.
type Finding struct {
	Property Property
	Text     string
}

// IsAboutRest reports whether a property says something about states of rest alone.
func IsAboutRest(p Property, invariants []Invariant) bool {
	return slices.Contains([]Property{Reconciled, Desired, SameEnd, Owned, Finalized}, p) ||
		slices.ContainsFunc(invariants, func(i Invariant) bool { return Property(i.Name) == p && i.Eventually != "" })
}

// going is a child that goes while another one of its kind and parent stays, in the life of the parent or in its deletion.
type going struct {
	goes, stays object.Ref
	parent      object.Owner
	deleting    bool
}

// Departures are the children that went in some steps, with those that stayed.
type Departures map[going]bool

// Add adds the children that a step removes, with those that stay.
func (d Departures) Add(before, after *apiserver.State) {
	for _, at := range before.Entries {
		if at.Object == nil || after.At(at.Ref).Object != nil {
			continue
		}
		owner, _ := at.Object.Controller()
		isOwner := func(one apiserver.Entry) bool { return one.Object != nil && one.Object.UID() == owner.UID }
		parent := slices.IndexFunc(before.Entries, isOwner)
		for _, other := range after.Entries {
			isSibling := other.Object != nil && apiserver.CompareKinds(other.Ref, at.Ref) == 0 && other.Object.ControlledBy(owner.UID)
			if parent >= 0 && isSibling {
				d[going{at.Ref, other.Ref, owner, before.Entries[parent].Object.Deleting()}] = true
			}
		}
	}
}

// Invariants returns those that hold in all steps: which of two children goes first. Only an author knows whether it is meant.
// There is one for each kind and parent, in its life and in its deletion.
func (d Departures) Invariants() []Invariant {
	var first []going
	byName := func(a, b going) int {
		return cmp.Or(apiserver.CompareRefs(a.goes, b.goes), apiserver.CompareRefs(a.stays, b.stays))
	}
	for _, g := range slices.SortedFunc(maps.Keys(d), byName) {
		reverse := going{g.stays, g.goes, g.parent, g.deleting}
		if !d[reverse] && !slices.ContainsFunc(first, g.isLike) {
			first = append(first, g)
		}
	}
	return lists.Map(first, going.invariant)
}

// isLike reports whether two are of one kind and parent, at one time.
func (g going) isLike(other going) bool {
	return apiserver.CompareKinds(g.goes, other.goes) == 0 && g.parent == other.parent && g.deleting == other.deleting
}

func (g going) invariant() Invariant {
	when, not := "in its life", "!"
	if g.deleting {
		when, not = "in its deletion", ""
	}
	child := func(ref object.Ref) string {
		return fmt.Sprintf("children.exists(c, c.kind == '%s' && c.metadata.name == '%s')", ref.Kind.Kind, ref.Name)
	}
	return Invariant{
		Name: fmt.Sprintf("%s of %s goes before %s %s", g.goes.Name, g.parent.Name, g.stays.Name, when),
		Step: fmt.Sprintf("!before.objects.exists(p, p.kind == '%s' && p.metadata.name == '%s' && %shas(p.metadata.deletionTimestamp))",
			g.parent.Kind, g.parent.Name, not) +
			" || !before." + child(g.stays) + " || after." + child(g.stays) + " || !after." + child(g.goes),
	}
}
