package inspect

import "github.com/setpoint-dev/setpoint/internal/object"

// HealthOf is how an object is doing by its status, and why.
func HealthOf(o *object.Object) (health, message string) {
	if o.Deleting() {
		return "Terminating", "it is being deleted"
	}
	return "Unknown", ""
}
