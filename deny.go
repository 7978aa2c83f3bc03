package setpoint

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// Denial is an error by which a review refuses a change. Its message, with what it
// is wrapped in, is what the user reads.
type Denial struct {
	Message string
	// Reason is the API server's for such an error, such as "Conflict": "Forbidden" if
	// empty. Code is the HTTP status: the reason's if zero.
	Reason string
	Code   int
}

func (d *Denial) Error() string { return d.Message }

// Deny refuses a change that is not allowed (403 Forbidden). The message says what is
// wrong and what to do.
func Deny(format string, args ...any) error {
	return &Denial{Message: fmt.Sprintf(format, args...)}
}

// Invalid refuses an object that is not well formed (422 Invalid), as a schema does.
// The message begins with the path of the field.
func Invalid(format string, args ...any) error {
	return &Denial{Message: fmt.Sprintf(format, args...), Reason: string(metav1.StatusReasonInvalid)}
}

// denialIn is what a review that returns this error says; nil for an error that is no
// verdict.
func denialIn(err error) *hook.Denial {
	d, denied := errors.AsType[*Denial](err)
	if !denied {
		return nil
	}
	return &hook.Denial{Message: err.Error(), Reason: d.Reason, Code: d.Code}
}
