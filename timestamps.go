package setpoint

import (
	"bytes"
	"encoding/json"
)

// dropNullTimestamps removes metadata.creationTimestamp: null from templates. Go types of
// other releases write it although it is unset.
func dropNullTimestamps(data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte(`"creationTimestamp":null`)) {
		return data, nil
	}
	t, err := readJSONObject(data)
	if err != nil {
		return nil, err
	}
	dropNullTimestampsIn(t)
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
