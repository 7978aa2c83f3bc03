package setpoint

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Owned finds the objects that the handled one owns, of a kind that Owns
// declares. Into points to a slice of the kind's type, such as
// *[]corev1.ConfigMap, and is emptied first; *[]Unstructured takes those of all
// kinds.
func (c *Call[T]) Owned(into any) {
	if err := c.controller.read("Owned", c.notice.Owned, into); err != nil {
		c.problems = append(c.problems, err)
	}
}

// read fills a slice with the objects of the slice's kind.
func (c *controller) read(verb string, groups []hook.Group, into any) error {
	slice := reflect.ValueOf(into)
	if slice.Kind() != reflect.Pointer || slice.Elem().Kind() != reflect.Slice {
		return fmt.Errorf("%s: wants a pointer to a slice, not a %T", verb, into)
	}
	slice = slice.Elem()
	slice.SetLen(0)
	element := slice.Type().Elem()
	wanted, err := c.wanted(verb, element)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	for _, group := range groups {
		if wanted != nil && *wanted != (kind{group.APIVersion, group.Kind}).group() {
			continue
		}
		for _, entry := range group.Objects {
			one := reflect.New(element)
			if err := json.Unmarshal(entry.Object, one.Interface()); err != nil {
				return fmt.Errorf("%s: read %s %s as %s: %w", verb, group.Kind, entry.Name, element, err)
			}
			slice.Set(reflect.Append(slice, one.Elem()))
		}
	}
	return nil
}

// wanted is the kind that a type stands for; nil for a type that holds any kind.
// But for related objects, which nobody declares, it must be one that is owned.
func (c *controller) wanted(verb string, t reflect.Type) (*object.GroupKind, error) {
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
		return nil, fmt.Errorf("%s is not declared: say Owns of it", k)
	}
	group := k.group()
	return &group, nil
}
