package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// jsonPatchOperations are the operations of JSON patches, with the fields that each
// requires besides path.
var jsonPatchOperations = map[string][]string{
	"add": {"value"}, "remove": nil, "replace": {"value"},
	"move": {"from"}, "copy": {"from"}, "test": {"value"},
}

// checkPatch checks the form of a JSON patch; the API server checks its effect. An empty
// patch is nil.
func checkPatch(patch []byte) (json.RawMessage, error) {
	list, err := elementsOf(patch)
	if err != nil {
		return nil, fmt.Errorf("jsonPatch: %w", err)
	}
	for i, operation := range list {
		if err := checkOperation(operation); err != nil {
			return nil, fmt.Errorf("jsonPatch[%d]: %w", i, err)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return patch, nil
}

func checkOperation(operation []byte) error {
	f, err := fieldsOf(operation)
	if err != nil {
		return err
	}
	op, err := textOf(&f, "op")
	if err != nil {
		return err
	}
	needs, known := jsonPatchOperations[op]
	if !known {
		return fmt.Errorf("op: must be add, remove, replace, move, copy or test, is %q", op)
	}
	if err := checkPointer(&f, "path"); err != nil {
		return err
	}
	if slices.Contains(needs, "value") && f.value("value") == nil {
		return errors.New("value: required for " + op)
	}
	if slices.Contains(needs, "from") {
		return checkPointer(&f, "from")
	}
	return nil
}

// checkPointer checks a JSON pointer.
func checkPointer(f *fields, name string) error {
	pointer, err := textOf(f, name)
	if err != nil {
		return err
	}
	if pointer != "" && !strings.HasPrefix(pointer, "/") {
		return fmt.Errorf("%s: must start with a slash, such as /metadata/labels/app, is %q", name, pointer)
	}
	return nil
}

// textOf returns a required string.
func textOf(f *fields, name string) (string, error) {
	switch value := f.value(name); kindOf(value) {
	case '"':
		return string(object.Unquoted(value)), nil
	case 0:
		return "", errors.New(name + ": required")
	}
	return "", errors.New(name + ": must be a string")
}
