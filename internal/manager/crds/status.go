package crds

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// StatusSchema returns which status fields a version of a CRD has.
func StatusSchema(crd *object.Object, version string) (compile.Status, error) {
	var shape definition
	if err := json.Unmarshal(crd.JSON(), &shape); err != nil {
		return compile.Status{}, fmt.Errorf("read CRD %s: %w", crd.Name(), err)
	}
	for _, v := range shape.Spec.Versions {
		if v.Name != version || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		status := v.Schema.OpenAPIV3Schema.Properties["status"]
		conditions, typed := status.Properties["conditions"]
		_, records := status.Properties[lasthandled.StatusField]
		return compile.Status{
			Untyped:    !typed && schema.IsTrue(&status, preserveUnknown),
			Conditions: holdConditions(itemsOf(&conditions)),
			Records:    records,
		}, nil
	}
	return compile.Status{}, nil
}

// holdConditions reports whether the items of a list can be Kubernetes conditions. Another schema could reject ours, or
// prune what they say; that of an observedGeneration says little.
func holdConditions(items *spec.Schema) bool {
	if items == nil {
		return false
	}
	written := []string{"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}
	for _, name := range written {
		field, has := items.Properties[name]
		switch {
		case !has && name != "observedGeneration" && !schema.IsTrue(items, preserveUnknown):
			return false
		case name != "status" && len(field.Enum) > 0:
			return false
		}
	}
	return !slices.ContainsFunc(items.Required, func(name string) bool { return !slices.Contains(written, name) })
}

// HasStatusConditions reports whether a CRD that Setpoint does not install has conditions in its status schema.
func HasStatusConditions(stored *object.Object, ours Manifest) (bool, error) {
	var shape definition
	if err := json.Unmarshal(ours.JSON(), &shape); err != nil {
		return false, fmt.Errorf("read CRD %s: %w", ours.Name(), err)
	}
	for _, version := range shape.Spec.Versions {
		wanted, err := StatusSchema(ours.Object, version.Name)
		if err != nil {
			return false, err
		}
		has, err := StatusSchema(stored, version.Name)
		if err != nil || wanted.Conditions && !has.Conditions {
			return false, err
		}
	}
	return true, nil
}
