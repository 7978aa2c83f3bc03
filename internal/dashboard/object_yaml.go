package dashboard

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// yamlPage is the data of the YAML tab.
type yamlPage struct {
	*pageObject
	// Text is the object without its managed fields, which ManagedFields has.
	Text, ManagedFields string
	// Masked reports that values are hidden.
	Masked    bool
	Truncated bool
}

// maxYAMLBytes is how much of an object is shown.
const maxYAMLBytes = 1 << 20

func showObjectYAML(req *request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	p := yamlPage{pageObject: s}
	if !s.Deleted {
		if err := p.setText(s); err != nil {
			return err
		}
	}
	return req.render(page{
		Name: "object_yaml", Title: s.Kind.Kind + " " + s.Name + " as YAML", Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

func (p *yamlPage) setText(s *pageObject) error {
	var o map[string]any
	if err := json.Unmarshal(s.raw, &o); err != nil {
		return fmt.Errorf("decode %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	managers := metadata["managedFields"]
	delete(metadata, "managedFields")
	p.Masked = object.IsSecret(o) && redact.Secret(o, hiddenValue) > 0
	var err error
	if p.Text, p.Truncated, err = toYAML(o); err != nil {
		return err
	}
	if managers != nil {
		p.ManagedFields, _, err = toYAML(managers)
	}
	return err
}

func toYAML(value any) (text string, cut bool, err error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", false, fmt.Errorf("write YAML: %w", err)
	}
	if cut = len(data) > maxYAMLBytes; cut {
		data = data[:maxYAMLBytes]
	}
	return diff.EscapeInvisible(string(data)), cut, nil
}

// hiddenValue replaces the values of Secrets.
const hiddenValue = "*** (hidden)"
