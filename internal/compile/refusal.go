package compile

import (
	"encoding/json"
	"fmt"
	"strconv"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// Refusal is why a controller is not accepted.
type Refusal struct {
	// Reason is the reason of the condition Accepted.
	Reason string
	Err    error
}

func (r *Refusal) Error() string { return r.Err.Error() }

func (r *Refusal) Unwrap() error { return r.Err }

func refuse(reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, args...)}
}

func invalid(format string, args ...any) error {
	return refuse(api.ReasonInvalidSpec, format, args...)
}

// ErrNotServed means that the API server does not serve a resource.
var ErrNotServed = served.ErrNotServed

func notServed(name resourceRef) error {
	return refuse(api.ReasonResourceNotFound,
		"%s: %s of %s: %w; the controller starts when it is served", name.field, name.plural, name.apiVersion, ErrNotServed)
}

// resourceRef is a resource in a spec, and the path of the field.
type resourceRef struct{ field, apiVersion, plural string }

// index returns the path of a list item.
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func readSpec(o *object.Object, into any) error {
	if err := json.Unmarshal(o.JSON(), into); err != nil {
		return invalid("%w", object.TypeError(o.JSON(), err))
	}
	return nil
}
