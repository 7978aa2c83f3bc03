package object

import (
	"encoding/json"
	"time"
)

// Time returns a time in the metadata, such as creationTimestamp; zero if it is absent.
func (o *Object) Time(name string) (at time.Time) {
	if field := o.Field("metadata", name); field != nil && json.Unmarshal(field, &at) != nil {
		return time.Time{} // The API server writes only valid times.
	}
	return at
}
