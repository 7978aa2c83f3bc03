package sdk

import (
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
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
