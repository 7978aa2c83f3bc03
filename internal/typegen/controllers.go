package typegen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hooks are the hooks of a controller and the kinds that they receive and return.
type hooks interface {
	resources() []Resource
	addTypes(b *builder, base string)
}

// controller is a controller with its hooks.
type controller struct {
	hooks

	kind, name, group string
}

// readControllers reads controllers, sorted by their names.
func readControllers(all []*object.Object) ([]controller, error) {
	var read []controller
	for _, o := range all {
		c := controller{kind: o.Kind(), name: o.Name(), group: object.GroupOf(o.APIVersion())}
		if err := c.read(o); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", o.Kind(), o.Name(), err)
		}
		read = append(read, c)
	}
	slices.SortFunc(read, func(a, b controller) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group))
	})
	return read, nil
}

// read reads the spec. Responses to a controller of metacontroller.k8s.io have fewer fields.
func (c *controller) read(o *object.Object) error {
	var d declared
	if err := json.Unmarshal(o.JSON(), &struct{ Spec *declared }{&d}); err != nil {
		return err
	}
	ours := c.group == v1alpha1.GroupVersion.Group
	switch c.kind {
	case v1alpha1.CompositeControllerKind:
		c.hooks = &synced{declared: d, children: d.ChildResources, field: "Children", ours: ours}
	case v1alpha1.DecoratorControllerKind:
		c.hooks = &synced{declared: d, children: d.Attachments, field: "Attachments", wire: "Decorator", ours: ours}
	case v1alpha1.HandlerControllerKind:
		c.hooks = &handlers{d}
	case v1alpha1.AdmissionControllerKind:
		c.hooks = &admission{d}
	default:
		return errors.New("is no controller")
	}
	return nil
}

// addTo adds the requests and responses of the controller.
func (c *controller) addTo(b *builder) {
	base := camel(c.name)
	if b.bases[base] {
		base += strings.TrimSuffix(c.kind, "Controller")
	}
	b.bases[base] = true
	c.addTypes(b, base)
}
