package difference

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Response has the fields of a response, as in the reference of its kind of hook. A field that has no effect is
// absent.
type Response map[string]any

// Fields that responses have beside those of the hook.
const (
	// FieldError is the error of a call.
	FieldError = "error"
	// FieldLogicVersion is the version of the code, which is expected to differ.
	FieldLogicVersion = "logicVersion"
)

// Decode decodes a response to a request about an object in a namespace. The children without a namespace are in
// the same one.
func Decode(text json.RawMessage, childrenField, namespace string) (Response, error) {
	decoded, err := object.Decode(text)
	if err != nil {
		return nil, err
	}
	all := Response(decoded)
	if childrenField != "" {
		list, _ := all[childrenField].([]any)
		for _, each := range list {
			if o, is := each.(map[string]any); is {
				DropNamespace(o, namespace)
			}
		}
		all[childrenField] = append([]any{}, list...)
	}
	return all, nil
}

// Plan returns what Setpoint would write of the children of a response, as if a rolling update was at its end.
func Plan(planner *plan.Planner, observed []*object.Object, children []json.RawMessage) (plan.Plan, error) {
	desired, _, err := planner.Desired(children)
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range desired {
		desired[i].Rule.Method = desired[i].Rule.Method.NonRolling()
	}
	return planner.Changes(observed, desired, nil)
}

// DropNamespace removes a namespace of an object that is the default there.
func DropNamespace(o map[string]any, namespace string) {
	if metadata, is := o["metadata"].(map[string]any); is && namespace != "" && metadata["namespace"] == namespace {
		delete(metadata, "namespace")
	}
}

// changesOf returns the fields in which two responses differ that byName has returned. A field of a response that is
// empty equals one that is absent. In objects it does not: a Deployment without replicas has one.
func changesOf(before, after map[string]any) []object.FieldChange {
	return slices.DeleteFunc(object.KeyedChanges(before, after), func(c object.FieldChange) bool {
		return !strings.ContainsAny(c.Path, ".[") && isEmptyJSON(c.From) && isEmptyJSON(c.To)
	})
}

func isEmptyJSON(value json.RawMessage) bool {
	return value == nil || slices.Contains([]string{"null", "[]", "{}", `""`, "0", "false"}, string(value))
}

// byName returns a response with its list of children as a map.
func byName(of Response, childrenField string) map[string]any {
	named := maps.Clone(map[string]any(of))
	if list, is := of[childrenField].([]any); is {
		children := map[string]any{}
		for _, child := range list {
			children[objectName(child)] = child
		}
		named[childrenField] = children
	}
	return named
}

// objectName returns such as "ConfigMap shop/red". A kind that is not built in has its group, as in
// "Service.serving.knative.dev shop/red": another group may have a kind of the same name.
func objectName(of any) string {
	o, _ := of.(map[string]any)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	kind, _ := o["kind"].(string)
	version, _ := o["apiVersion"].(string)
	if group, _, has := strings.Cut(version, "/"); has && !object.IsBuiltInGroup(group) {
		kind += "." + group
	}
	return strings.TrimSpace(kind + " " + name)
}

func only(name string, of map[string]any) map[string]any {
	value, has := of[name]
	if !has {
		return nil
	}
	return map[string]any{name: value}
}
