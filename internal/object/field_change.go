package object

import "encoding/json"

// FieldChange is a field whose value changes.
type FieldChange struct {
	// Path is such as "spec.ports[port=80].nodePort". List items are named by their key, or by
	// their index if they have none.
	Path string `json:"path"`
	// From and To are the values as JSON; nil if there is none.
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}
