package ui

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/diff"
)

// yamlPage is an object as it is stored.
type yamlPage struct {
	*subject
	Tab string
	// Text is the object without who manages its fields, which Managers are.
	Text, Managers string
	// Masked says that values are hidden.
	Masked bool
	Cut    bool
}

// maxYAML is how much of an object is shown.
const maxYAML = 1 << 20

func showObjectYAML(v *visit) error {
	s, err := v.subject()
	if err != nil {
		return err
	}
	p := yamlPage{subject: s, Tab: "yaml"}
	if !s.Gone {
		if err := p.write(s); err != nil {
			return err
		}
	}
	return v.render(page{
		Name: "object_yaml", Title: s.Kind.Kind + " " + s.Name + " as YAML", Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

func (p *yamlPage) write(s *subject) error {
	var o map[string]any
	if err := json.Unmarshal(s.raw, &o); err != nil {
		return fmt.Errorf("understand %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	managers := metadata["managedFields"]
	delete(metadata, "managedFields")
	o, hidden := asuser.Masked(o, masked)
	p.Masked = hidden > 0
	var err error
	if p.Text, p.Cut, err = asYAML(o); err != nil {
		return err
	}
	if managers != nil {
		p.Managers, _, err = asYAML(managers)
	}
	return err
}

func asYAML(value any) (text string, cut bool, err error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", false, fmt.Errorf("write YAML: %w", err)
	}
	if cut = len(data) > maxYAML; cut {
		data = data[:maxYAML]
	}
	return diff.Visible(string(data)), cut, nil
}

// masked stands for a value that nobody should read.
const masked = "*** (hidden)"
