package compose

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// annotationsOf returns all annotations of an object. It parses them each time, because few
// controllers select by annotation.
func annotationsOf(o *object.Object) map[string]string {
	field := o.Field("metadata", "annotations")
	if field == nil {
		return nil
	}
	var annotations map[string]string
	if json.Unmarshal(field, &annotations) != nil {
		return nil // The API server accepts only strings.
	}
	return annotations
}
