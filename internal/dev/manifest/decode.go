package manifest

import (
	"encoding/json"
	"errors"
	"fmt"

	strict "sigs.k8s.io/json"
)

// Decode decodes the document. Unknown and duplicate fields are errors, which name the line and the field.
func (d Document) Decode(into any) error {
	text, err := d.Object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	unknown, err := strict.UnmarshalStrict(text, into)
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		err = fmt.Errorf("%s: cannot be a JSON %s", wrong.Field, wrong.Value)
	}
	var problems []error
	for _, each := range append(unknown, err) {
		if each != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d.Locate(each), d.Object.GetName(), each))
		}
	}
	return errors.Join(problems...)
}
