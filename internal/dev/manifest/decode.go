package manifest

import (
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Decode decodes the document. Unknown and duplicate fields are errors, which name the line and the field.
func (d Document) Decode(into any) error {
	text, err := d.Object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	problems := object.DecodeStrictly(text, into)
	for i, each := range problems {
		problems[i] = fmt.Errorf("%s: %s: %w", d.Locate(each), d.Object.GetName(), each)
	}
	return errors.Join(problems...)
}
