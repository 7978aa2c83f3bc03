package testcase

import (
	"context"
	"encoding/json"
	"maps"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// Draft returns a case of the first object in the files whose hook responds, with that response as the expected one, as a
// document of YAML; "" if there is none.
func Draft(ctx context.Context, w *workspace.Workspace) (string, error) {
	cases, _, err := OfFiles(w)
	for _, c := range cases {
		got, failed := c.accepted(ctx)
		if failed == nil && got[fieldCalled] == nil {
			return c.draft(got)
		}
	}
	return "", err
}

// draft returns the case as a document, in the order in which people write it.
func (c *Case) draft(got fields) (string, error) {
	encoded, err := json.Marshal(c.spec.Request)
	if err != nil {
		return "", err
	}
	request, err := object.Decode(encoded)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(request, func(_ string, value any) bool { return orNil(value) == nil })
	expect := maps.Clone(got)
	delete(expect, fieldLogicVersion)
	var text []byte
	for _, field := range []map[string]any{
		{"apiVersion": workspace.TestVersion}, {"kind": workspace.CaseKind},
		{"metadata": map[string]any{"name": c.Document.Object.GetName()}},
		{"controller": c.target.controller.String()}, {"hook": c.target.hook}, {"request": request}, {"expect": expect},
	} {
		part, err := yaml.Marshal(field)
		if err != nil {
			return "", err
		}
		text = append(text, part...)
	}
	return string(text), nil
}
