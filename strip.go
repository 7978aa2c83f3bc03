package setpoint

// strip takes out what Go types write although nobody has set it.
func strip(t tree) {
	delete(t, "status")
	metadata := t.member("metadata")
	for _, name := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"} {
		delete(metadata, name)
	}
	dropEmptyTimes(t)
}

// dropEmptyTimes drops metadata.creationTimestamp: null wherever a template has
// metadata.
func dropEmptyTimes(value any) {
	switch value := value.(type) {
	case tree:
		dropEmptyTimes(map[string]any(value))
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
