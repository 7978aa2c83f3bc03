package testcase

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// plan returns what Setpoint would write of the children of a response, as if a rolling update was at its end.
func (t *target) plan(parent *object.Object, observed []*object.Object, response fields) (plan.Plan, error) {
	planner, err := t.compose.Planner(parent)
	if err != nil {
		return plan.Plan{}, err
	}
	list, _ := response[t.childrenField()].([]any)
	return difference.Plan(&planner, observed, lists.Map(list, encoded))
}

func encoded(value any) json.RawMessage {
	text, _ := json.Marshal(value) //nolint:errchkjson // It was decoded.
	return text
}

// writes returns what would be written of children in words, such as "create ConfigMap example".
func (c *Case) writes(parent *object.Object, observed []*object.Object, response fields) ([]any, error) {
	planned, err := c.target.plan(parent, observed, response)
	if err != nil {
		return nil, &responseError{err}
	}
	all := []any{}
	for _, action := range slices.Concat(planned.Stages...) {
		writes, err := writesSomething(action)
		if err != nil {
			return nil, err
		}
		if writes {
			all = append(all, describeAction(&action, parent.Namespace()))
		}
	}
	return all, nil
}

// writesSomething reports whether an action changes something. The children of a case need neither managed fields nor what
// Setpoint adds to them.
func writesSomething(a plan.Action) (bool, error) {
	if a.Before == nil || a.Verb == plan.Delete && a.DryRunVerb == "" {
		return true, nil
	}
	all, err := plan.Diff(a)
	return slices.ContainsFunc(all, func(c object.FieldChange) bool { return !strings.Contains(c.Path, plan.UIDLabel) }), err
}

// describeAction returns such as "create ConfigMap example", with the namespace if it is not that of the parent.
func describeAction(a *plan.Action, namespace string) string {
	verb, name := a.Verb, a.Ref.Name
	switch {
	case verb == plan.Apply && a.Before == nil:
		verb = plan.Create
	case verb == plan.Apply:
		verb = plan.Update
	}
	if a.Ref.Namespace != "" && a.Ref.Namespace != namespace {
		name = a.Ref.Namespace + "/" + name
	}
	return string(verb) + " " + a.Resource.Kind + " " + name
}
