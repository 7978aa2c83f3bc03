package setpoint

import (
	"bytes"
	"encoding/json"
)

// dropNullTimestamps drops metadata.creationTimestamp: null wherever a template has
// metadata: Go types of other releases write it although nobody has set it.
func dropNullTimestamps(data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte(`"creationTimestamp":null`)) {
		return data, nil
	}
	t, err := readJSONObject(data)
	if err != nil {
		return nil, err
	}
	dropNullTimestampsIn(map[string]any(t))
	return json.Marshal(t)
}

func dropNullTimestampsIn(value any) {
	switch value := value.(type) {
	case map[string]any:
		if at, there := value["creationTimestamp"]; there && at == nil {
			delete(value, "creationTimestamp")
		}
		for _, inner := range value {
			dropNullTimestampsIn(inner)
		}
	case []any:
		for _, inner := range value {
			dropNullTimestampsIn(inner)
		}
	}
}
