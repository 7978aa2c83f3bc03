package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// expression compiles the expression in a field. Errors have the field with line and column.
func (env *Environment) expression(field string, source api.Expression, variables ...string) (Predicate, error) {
	if env.Expressions == nil {
		return nil, invalid("%s: this program has no CEL; use the setpoint binary", field)
	}
	evaluate, err := env.Expressions(string(source), variables...)
	if err != nil {
		return nil, refuse(api.ReasonInvalidSource, "%s:%s", field, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return func(values map[string]any) (bool, error) {
		holds, err := evaluate(values)
		if err != nil {
			return false, fmt.Errorf("%s: %w", field, err)
		}
		return holds, nil
	}, nil
}

func (env *Environment) parentExpression(field string, source api.Expression) (func(*object.Object, []*object.Object) (bool, error),
	error) {
	evaluate, err := env.expression(field, source, "parent", "children")
	return func(parent *object.Object, children []*object.Object) (bool, error) {
		return evaluate(map[string]any{"parent": value(parent), "children": values(children)})
	}, err
}

// addExpressions adds the expressions of an update strategy to a rule.
func (env *Environment) addExpressions(field string, declared api.UpdateStrategy, rule *plan.Rule) error {
	field += ".updateStrategy"
	if declared.Pause != "" {
		holds, err := env.parentExpression(field+".pause", declared.Pause)
		if err != nil {
			return err
		}
		rule.Pause = &plan.Pause{Field: field + ".pause", Holds: holds}
	}
	if declared.StatusChecks == nil {
		return nil
	}
	for i, check := range declared.StatusChecks.Expressions {
		evaluate, err := env.expression(index(field+".statusChecks.expressions", i)+".expression", check.Expression, "object", "parent")
		if err != nil {
			return err
		}
		rule.ExpressionChecks = append(rule.ExpressionChecks, plan.ExpressionCheck{
			Message: cmp.Or(check.Message, "not yet: "+string(check.Expression)),
			Holds: func(object, parent *object.Object) (bool, error) {
				return evaluate(map[string]any{"object": value(object), "parent": value(parent)})
			},
		})
	}
	return nil
}

// handlerWhen compiles the expression of a handler; nil for none.
func (env *Environment) handlerWhen(field string, source api.Expression) (func(reason hook.Reason, old, now *object.Object) (bool, error),
	error) {
	if source == "" {
		return nil, nil //nolint:nilnil // No expression selects all.
	}
	evaluate, err := env.expression(field+".when", source, "object", "oldObject", "reason")
	if err != nil {
		return nil, err
	}
	return func(reason hook.Reason, old, now *object.Object) (bool, error) {
		return evaluate(map[string]any{"object": value(now), "oldObject": value(old), "reason": string(reason)})
	}, nil
}

func values(objects []*object.Object) []json.RawMessage {
	all := make([]json.RawMessage, len(objects))
	for i, o := range objects {
		all[i] = o.JSON()
	}
	return all
}

// value returns an object as the value of a variable; null for none.
func value(o *object.Object) any {
	if o == nil {
		return nil
	}
	return json.RawMessage(o.JSON())
}
