package setpointtest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// isExternal reports whether the edit is of the fake.
func (e *Edit) isExternal(of *Exploration) bool {
	return e.Of != nil && of.External != nil && e.Of == of.External
}

// document returns the fields of an edit in a file.
func (e *Edit) document(app *setpoint.App) (map[string]any, error) {
	fields := map[string]any{"name": e.Name}
	if e.Delete {
		fields["delete"] = true
	}
	if e.Of != nil {
		of, err := fieldsOf(app, e.Of)
		if err != nil {
			return nil, fmt.Errorf(".Of: %w", err)
		}
		u := unstructured.Unstructured{Object: of}
		fields["of"] = map[string]any{"kind": u.GetKind(), "namespace": u.GetNamespace(), "name": u.GetName()}
	}
	if e.Create != nil {
		create, err := fieldsOf(app, e.Create)
		if err != nil {
			return nil, fmt.Errorf(".Create: %w", err)
		}
		fields["create"] = create
	}
	if e.Patch != "" {
		patch, err := e.patch()
		if err != nil {
			return nil, err
		}
		fields["patch"] = patch
	}
	return fields, nil
}

// patch returns the merge patch.
func (e *Edit) patch() (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict([]byte(e.Patch))
	if err != nil {
		return nil, fmt.Errorf(".Patch: %w", err)
	}
	patch, err := object.Decode(text)
	if err != nil {
		return nil, fmt.Errorf(".Patch: must be an object, such as spec: {size: 2}: %w", err)
	}
	return patch, nil
}

// externalEdits returns the edits of the fake.
func (e *Exploration) externalEdits() ([]world.Edit, error) {
	var all []world.Edit
	for i := range e.Edits {
		one := &e.Edits[i]
		if !one.isExternal(e) {
			continue
		}
		patch, err := one.patch()
		if err == nil && (one.Name == "" || one.Patch == "" || one.Delete || one.Create != nil) {
			err = errors.New(": an edit of External has a Name and a Patch")
		}
		if err != nil {
			return nil, fmt.Errorf("Edits[%d]%w", i, err)
		}
		all = append(all, world.Edit{Name: one.Name, Object: loop.ExternalRef(), Patch: map[string]any{"state": patch}})
	}
	return all, nil
}
