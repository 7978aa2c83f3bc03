package explore

import (
	"encoding/json"
	"errors"
	"fmt"
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

// invariantSet are invariants that can be evaluated.
type invariantSet []*compiled

// hasSteps reports whether one of them is about steps.
func (s invariantSet) hasSteps() bool {
	return slices.ContainsFunc(s, func(c *compiled) bool { return c.Step != "" })
}

func compileInvariants(invariants []Invariant) (invariantSet, error) {
	var all invariantSet
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
func lists(stored Stored) map[string]any {
	parents, children, objects := []json.RawMessage{}, []json.RawMessage{}, []json.RawMessage{}
	for _, at := range stored {
		switch {
		case at.Object == nil:
			continue
		case isControlled(at.Object):
			children = append(children, at.Object.JSON())
		case !isFrame(at.Ref.GroupKind()):
			parents = append(parents, at.Object.JSON())
		}
		objects = append(objects, at.Object.JSON())
	}
	return map[string]any{"parents": parents, "children": children, "objects": objects}
}

// isFrame reports whether objects of a kind are no parents: users do not keep them.
func isFrame(kind object.GroupKind) bool {
	return kind == object.Namespaces.GroupKind() || kind == loop.ExternalKind.GroupKind()
}

// document returns the lists as one JSON object.
func document(stored Stored) json.RawMessage {
	values := lists(stored)
	var text []byte
	for _, name := range []string{"parents", "children", "objects"} {
		text = fmt.Appendf(text, ",%q:[", name)
		for i, one := range values[name].([]json.RawMessage) {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, one...)
		}
		text = append(text, ']')
	}
	text[0] = '{'
	return append(text, '}')
}

// broken returns the invariants on states that do not hold; at rest those on rest.
func (s invariantSet) broken(stored Stored, rest bool) []finding {
	var all []finding
	values := lists(stored)
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

// brokenStep returns the invariants on steps that one breaks.
func (s invariantSet) brokenStep(before, after Stored) []finding {
	var all []finding
	values := map[string]any{"before": document(before), "after": document(after)}
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
