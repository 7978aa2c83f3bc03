package explore

import "github.com/setpoint-dev/setpoint/internal/failure"

// guarded runs a part of a search and returns a panic in it as an error, because a defect of ours must not take the
// other tests of a run with it. The states are whole nevertheless: all locks are deferred.
func guarded(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = failure.FromPanic("internal error in Setpoint", value)
		}
	}()
	return do()
}
