package crds

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// StatusSchema returns which status fields a version of a CRD has.
func StatusSchema(crd *object.Object, version string) (compile.Status, error) {
	var shape schema
	if err := json.Unmarshal(crd.JSON(), &shape); err != nil {
		return compile.Status{}, fmt.Errorf("read CRD %s: %w", crd.Name(), err)
	}
	for _, v := range shape.Spec.Versions {
		if v.Name != version || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		if status := v.Schema.OpenAPIV3Schema.Properties["status"]; status != nil {
			return compile.Status{
				Untyped:    status.Properties["conditions"] == nil && status.PreserveUnknown,
				Conditions: status.Properties["conditions"].holdsConditions(),
				Records:    status.Properties[lasthandled.StatusField] != nil,
			}, nil
		}
	}
	return compile.Status{}, nil
}

// holdsConditions reports whether a field holds Kubernetes conditions. Another schema could reject ours, or prune
// what they say; that of an observedGeneration says little.
func (s *fieldSchema) holdsConditions() bool {
	if s == nil || s.Items == nil {
		return false
	}
	written := []string{"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}
	for _, name := range written {
		field := s.Items.Properties[name]
		switch {
		case field == nil && name != "observedGeneration" && !s.Items.PreserveUnknown:
			return false
		case field != nil && name != "status" && len(field.Enum) > 0:
			return false
		}
	}
	return !slices.ContainsFunc(s.Items.Required, func(name string) bool { return !slices.Contains(written, name) })
}

// HasStatusConditions reports whether a CRD that Setpoint does not install has conditions
// in its status schema.
func HasStatusConditions(stored *object.Object, ours Manifest) (bool, error) {
	var shape schema
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
