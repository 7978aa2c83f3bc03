package setpointtest

import (
	"encoding/json"
	"errors"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// document returns the fields of an invariant in a file.
func (i *Invariant) document() (map[string]any, error) {
	fields := map[string]any{"name": i.Name}
	for name, source := range map[string]string{"always": i.Always, "never": i.Never, "eventually": i.Eventually, "step": i.Step} {
		if source != "" {
			fields[name] = source
		}
	}
	for name, is := range map[string]bool{"always": i.In != nil, "eventually": i.AtRest != nil, "step": i.Between != nil} {
		switch {
		case is && len(fields) > 1:
			return nil, errors.New(": has several expressions or functions; it has one")
		case is:
			// It compiles as an expression; the function takes its place.
			fields[name] = "true"
		}
	}
	return fields, nil
}

// functionText stands for a function where a file has an expression.
const functionText = "a function in Go"

// addFunction sets the function of an invariant, if it has one.
func (i *Invariant) addFunction(to *property.Invariant, app *setpoint.App, external *loop.External) {
	holds := i.Between
	switch {
	case i.In != nil:
		to.Always, holds = functionText, func(_, now *State) error { return i.In(now) }
	case i.AtRest != nil:
		to.Eventually, holds = functionText, func(_, now *State) error { return i.AtRest(now) }
	case i.Between != nil:
		to.Step = functionText
	default:
		return
	}
	to.Func = func(values map[string]any) error {
		before, now, err := statesOf(values)
		if err != nil {
			return err
		}
		before.app, now.app = app, app
		check := func() { err = failure.Recover("the invariant", func() error { return holds(before, now) }) }
		if external == nil {
			check()
		} else if _, failed := external.In(now.external, check); failed != nil {
			return failed
		}
		return err
	}
}

// statesOf returns the states that the variables of an invariant have: one, or two of a step.
func statesOf(values map[string]any) (before, now *State, err error) {
	if objects, one := values["objects"].([]json.RawMessage); one {
		now, err = stateOf(objects)
		return &State{}, now, err
	}
	var states [2]*State
	for i, name := range []string{"before", "after"} {
		var lists struct{ Objects []json.RawMessage }
		text, _ := values[name].(json.RawMessage)
		if err := json.Unmarshal(text, &lists); err != nil {
			return nil, nil, err
		}
		if states[i], err = stateOf(lists.Objects); err != nil {
			return nil, nil, err
		}
	}
	return states[0], states[1], nil
}
