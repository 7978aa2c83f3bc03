package compose

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// annotationsOf reads all annotations of an object. Few controllers select by
// them, so they are read anew each time.
func annotationsOf(o *object.Object) map[string]string {
	field := o.Field("metadata", "annotations")
	if field == nil {
		return nil
	}
	var annotations map[string]string
	if json.Unmarshal(field, &annotations) != nil {
		return nil // The API server takes nothing but texts.
	}
	return annotations
}
