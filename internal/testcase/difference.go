package testcase

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// effectsOf returns what is different in a present response, the most severe first.
func (r *recorded) effectsOf(got fields) []difference.Effect {
	c := difference.Comparison{Before: r.response, After: got, BeforeName: "the recorded call", ChildrenField: r.target.desiredField(),
		Namespace: r.call.Object.Namespace}
	c.Plan = func() ([]*object.Object, plan.Plan, error) { return r.planned(got) }
	return c.Effects()
}

// desiredField is the field that holds all desired children; empty if there is none.
func (t *target) desiredField() string {
	if t.compose == nil || t.hook == hookCustomize {
		return ""
	}
	return t.childrenField()
}

// planned returns the children in the request, and the plan of a present response.
func (r *recorded) planned(got fields) ([]*object.Object, plan.Plan, error) {
	parent, err := r.about(r.target.parentField())
	if err != nil {
		return nil, plan.Plan{}, err
	}
	observed, err := r.observed(parent)
	if err != nil {
		return nil, plan.Plan{}, err
	}
	known := observed
	if r.call.HasSecrets {
		known = withoutTokens(observed)
	}
	todo, err := r.target.plan(parent, known, got)
	return observed, todo, err
}

// observed returns the children in the request.
func (c *Case) observed(parent *object.Object) (all []*object.Object, err error) {
	groups, err := c.children(parent)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		for _, entry := range group.Objects {
			o, err := object.Parse(entry.Object)
			if err != nil {
				return nil, err
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// withoutTokens leaves out objects whose last applied configuration cannot be read.
func withoutTokens(all []*object.Object) []*object.Object {
	return slices.DeleteFunc(slices.Clone(all), func(o *object.Object) bool { return redact.HasTokens(string(o.JSON())) })
}
