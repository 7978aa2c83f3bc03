package inspect

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// The healths of objects: the statuses of kstatus.
const (
	HealthCurrent     = string(status.CurrentStatus)
	HealthInProgress  = string(status.InProgressStatus)
	HealthFailed      = string(status.FailedStatus)
	HealthTerminating = string(status.TerminatingStatus)
	HealthUnknown     = string(status.UnknownStatus)
)

// HealthOf returns the health of an object as kstatus computes it from its status, and
// why. The message is empty if the object is Current. An object whose status has fields
// of unexpected types is Unknown.
func HealthOf(o *object.Object) (health, message string) {
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(o.JSON()); err != nil {
		return HealthUnknown, err.Error()
	}
	result, err := status.Compute(&u)
	switch {
	case err != nil:
		return HealthUnknown, "kstatus cannot read its status: " + err.Error()
	case result.Status == status.CurrentStatus:
		return HealthCurrent, ""
	}
	return string(result.Status), result.Message
}
