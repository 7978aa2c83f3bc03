package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// statusSchema returns which status fields the CRD of a kind has. It is empty for built-in
// kinds, and where Setpoint may not read the CRD.
func (m *Manager) statusSchema(ctx context.Context, resource object.Resource) (compile.Status, error) {
	if !resource.Custom || !resource.Status {
		return compile.Status{}, nil
	}
	stored, err := m.storedCRD(ctx, crdNameOf(resource))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return compile.Status{}, nil
	case err != nil:
		return compile.Status{}, fmt.Errorf("look up the schema of %s: %w", resource, err)
	}
	return statusSchemaOf(stored, resource.Version)
}

// statusSchemaOf returns which status fields a version of a CRD has.
func statusSchemaOf(crd *object.Object, version string) (compile.Status, error) {
	var shape crdSchema
	if err := json.Unmarshal(crd.JSON(), &shape); err != nil {
		return compile.Status{}, fmt.Errorf("read CRD %s: %w", crd.Name(), err)
	}
	for _, v := range shape.Spec.Versions {
		if v.Name != version || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		if status := v.Schema.OpenAPIV3Schema.Properties["status"]; status != nil {
			return compile.Status{
				Conditions: status.Properties["conditions"].isConditionList(),
				Records:    status.Properties[handle.HandledStatusField] != nil,
			}, nil
		}
	}
	return compile.Status{}, nil
}

// isConditionList reports whether a field is a list of Kubernetes conditions. Another
// schema could prune or reject ours.
func (s *fieldSchema) isConditionList() bool {
	if s == nil || s.Items == nil {
		return false
	}
	written := []string{"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}
	for _, name := range written {
		if field := s.Items.Properties[name]; field == nil || name != "status" && len(field.Enum) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(s.Items.Required, func(name string) bool { return !slices.Contains(written, name) })
}
