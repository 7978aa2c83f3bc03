package conflicts

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Rank orders conflicting controller objects: those of all namespaces come before those limited to some,
// then the older ones, then by name. A tenant who may run a controller in one namespace thus neither blocks a
// cluster-wide controller nor takes a namespace out of it.
func Rank(o *object.Object) string {
	return scopeRank(o) + string(o.Field("metadata", "creationTimestamp")) + " " + o.APIVersion() + o.Name()
}

// youngestRank is the rank of a controller object that is not stored yet.
func youngestRank(o *object.Object) string { return scopeRank(o) + "~" }

// scopeRank orders controller objects by whether they are limited to namespaces.
func scopeRank(o *object.Object) string {
	var namespaces []string
	if field := o.Field("spec", "parentResource", "namespaces"); field != nil && json.Unmarshal(field, &namespaces) == nil &&
		len(namespaces) > 0 {
		return "limited "
	}
	return "all "
}
