package rollout

import (
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Number returns the number of a ControllerRevision; 0 without one.
func Number(revision *object.Object) int64 {
	number, err := strconv.ParseInt(string(revision.Field("revision")), 10, 64)
	if err != nil {
		return 0 // The API server requires a number.
	}
	return number
}
