package setpoint

import (
	"bytes"
	"encoding/json"
)

// withoutEmptyTimes drops metadata.creationTimestamp: null wherever a template has
// metadata: Go types of other releases write it although nobody has set it.
func withoutEmptyTimes(data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte(`"creationTimestamp":null`)) {
		return data, nil
	}
	t, err := readTree(data)
	if err != nil {
		return nil, err
	}
	dropEmptyTimes(map[string]any(t))
	return json.Marshal(t)
}

func dropEmptyTimes(value any) {
	switch value := value.(type) {
	case map[string]any:
		if at, there := value["creationTimestamp"]; there && at == nil {
			delete(value, "creationTimestamp")
		}
		for _, inner := range value {
			dropEmptyTimes(inner)
		}
	case []any:
		for _, inner := range value {
			dropEmptyTimes(inner)
		}
	}
}
