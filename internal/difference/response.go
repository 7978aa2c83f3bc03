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
	// FieldCalled is false if the condition of a handler is.
	FieldCalled = "called"
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
		all[childrenField] = append([]any{}, withoutNamespaces(list, namespace)...)
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

// withoutNamespaces removes the namespace of objects that are beside the parent, which is their default.
func withoutNamespaces(list []any, namespace string) []any {
	for _, each := range list {
		if o, is := each.(map[string]any); is {
			DropNamespace(o, namespace)
		}
	}
	return list
}

// DropNamespace removes a namespace of an object that is the default there.
func DropNamespace(o map[string]any, namespace string) {
	if metadata, is := o["metadata"].(map[string]any); is && namespace != "" && metadata["namespace"] == namespace {
		delete(metadata, "namespace")
	}
}

// NamedFields are the fields with lists of objects.
var NamedFields = []string{"children", "attachments", "apply", "delete"}

// Named returns the objects in a field by their names.
func Named(of Response, field string) map[string]any {
	members, _ := byName(of)[field].(map[string]any)
	return members
}

// Changes returns the fields in which two responses differ.
func Changes(before, after Response) []object.FieldChange {
	return changesOf(byName(before), byName(after))
}

// changesOf returns the fields in which two responses differ that byName has returned. A field of a response that is
// empty equals one that is absent. In objects it does not: a Deployment without replicas has one.
func changesOf(before, after map[string]any) []object.FieldChange {
	return slices.DeleteFunc(object.KeyedChanges(before, after), func(c object.FieldChange) bool {
		return !strings.ContainsAny(c.Path, ".[") && isEmptyJSON(c.From) && isEmptyJSON(c.To)
	})
}

// isEmptyJSON reports whether a value equals none.
func isEmptyJSON(value json.RawMessage) bool {
	return value == nil || slices.Contains([]string{"null", "[]", "{}", `""`, "0", "false"}, string(value))
}

// byName returns a response with its lists of objects as maps.
func byName(of Response) map[string]any {
	named := maps.Clone(map[string]any(of))
	for _, field := range NamedFields {
		list, is := of[field].([]any)
		if !is {
			continue
		}
		members := map[string]any{}
		for _, each := range list {
			members[ObjectName(each)] = each
		}
		named[field] = members
	}
	return named
}

// ObjectName returns such as "ConfigMap shop/red" for an object, or for a deletion. A kind that is not built in has
// its group, as in "Service.serving.knative.dev shop/red": another group may have a kind of the same name.
func ObjectName(of any) string {
	o, _ := of.(map[string]any)
	if inner, wrapped := o["object"].(map[string]any); wrapped {
		o = inner
	}
	metadata, is := o["metadata"].(map[string]any)
	if !is {
		metadata = o // A deletion.
	}
	name, _ := metadata["name"].(string)
	if selector, is := metadata["selector"].(string); is {
		name = "with the labels " + selector
	}
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

// Union returns a map with the keys of both.
func Union[K comparable, V any](a, b map[K]V) map[K]V {
	all := maps.Clone(a)
	if all == nil {
		return maps.Clone(b)
	}
	maps.Copy(all, b)
	return all
}

// only returns a map with one of the members, if there is such a member.
func only(name string, of map[string]any) map[string]any {
	value, has := of[name]
	if !has {
		return nil
	}
	return map[string]any{name: value}
}
