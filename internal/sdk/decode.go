package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// Decode decodes JSON as a T. A retry would not help.
func Decode[T any](data json.RawMessage) (*T, error) {
	into := new(T)
	if err := json.Unmarshal(data, into); err != nil {
		return nil, Permanentf("read the object as %T: %w", into, err)
	}
	return into, nil
}

// DecodeObject decodes an object as a T; nil stays nil.
func DecodeObject[T any](o *object.Object) (*T, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // No object is no object.
	}
	return Decode[T](o.JSON())
}

// Permanentf returns an error that is not retried until the object changes.
func Permanentf(format string, args ...any) error {
	return &hook.TerminalError{Err: fmt.Errorf(format, args...)}
}

// readGroups fills a slice with the objects of its kind.
func (c *Controller) readGroups(groups []hook.Group, into any, owned bool) error {
	slice, err := sliceIn(into)
	if err != nil {
		return err
	}
	wanted, err := c.kindOfType(slice.Type().Elem(), owned)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if wanted != nil && *wanted != (kinds.Kind{APIVersion: group.APIVersion, Name: group.Kind}).Group() {
			continue
		}
		if err := fill(slice, group); err != nil {
			return err
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

// kindOfType returns the kind of a type; nil for a type of any kind. That of owned objects
// must be declared by Owns.
func (c *Controller) kindOfType(t reflect.Type, owned bool) (*object.GroupKind, error) {
	if kinds.IsAny(t) {
		return nil, nil //nolint:nilnil // Documented.
	}
	k, err := c.app.kinds().OfType(t)
	if err != nil {
		return nil, err
	}
	if owned && !kinds.Contains(c.owns, k) {
		return nil, fmt.Errorf("declare %s with Owns", k)
	}
	group := k.Group()
	return &group, nil
}
