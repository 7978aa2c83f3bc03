package setpoint

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Owned reads the objects that the handled object owns, of a kind in Owns. Into points to
// a slice of the kind's type, such as *[]corev1.ConfigMap, which Owned empties first;
// *[]Unstructured takes all kinds.
func (c *Call[T]) Owned(into any) {
	if err := c.controller.readGroups("Owned", c.request.Owned, into); err != nil {
		c.problems = append(c.problems, err)
	}
}

// readGroups fills a slice with the objects of its kind.
func (c *controller) readGroups(verb string, groups []hook.Group, into any) error {
	slice, err := sliceIn(into)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	wanted, err := c.kindOfType(verb, slice.Type().Elem())
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	for _, group := range groups {
		if wanted != nil && *wanted != (kind{group.APIVersion, group.Kind}).group() {
			continue
		}
		if err := fill(slice, group); err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
	}
	return nil
}

// sliceIn empties and returns the slice that a pointer points to.
func sliceIn(into any) (reflect.Value, error) {
	pointer := reflect.ValueOf(into)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Slice {
		return pointer, fmt.Errorf("requires a pointer to a slice, not a %T", into)
	}
	pointer.Elem().SetLen(0)
	return pointer.Elem(), nil
}

// fill appends objects to a slice.
func fill(slice reflect.Value, group hook.Group) error {
	for _, entry := range group.Objects {
		one := reflect.New(slice.Type().Elem())
		if err := json.Unmarshal(entry.Object, one.Interface()); err != nil {
			return fmt.Errorf("read %s %s as %s: %w", group.Kind, entry.Name, one.Type().Elem(), err)
		}
		slice.Set(reflect.Append(slice, one.Elem()))
	}
	return nil
}

// kindOfType returns the kind of a type; nil for a type of any kind. It must be declared
// by Owns, except for related objects.
func (c *controller) kindOfType(verb string, t reflect.Type) (*object.GroupKind, error) {
	if anyKind(t) {
		return nil, nil //nolint:nilnil // Documented.
	}
	known, err := c.app.kinds()
	if err != nil {
		return nil, err
	}
	k, err := known.ofType(t)
	if err != nil {
		return nil, err
	}
	if verb != "Related" && !declares(c.owns, k) {
		return nil, fmt.Errorf("declare %s with Owns", k)
	}
	group := k.group()
	return &group, nil
}
