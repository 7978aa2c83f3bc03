package composite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// errIncomplete ends a run that has used its passes and continues in the next run.
var errIncomplete = errors.New("continued in the next run")

// hookFailure adds the reason to an error of a hook.
func hookFailure(name string, err error) error {
	reason := ReasonHookFailed
	if hook.IsMalformed(err) {
		reason = ReasonInvalidResponse
	} else if delay, delayed := hook.RetryDelay(err); delayed {
		err = fmt.Errorf("%w; next call in %v", err, delay.Round(time.Second))
	}
	return failure.WithReason(reason, fmt.Errorf("%s hook: %w", name, err))
}

// explainMissing adds to the error of a hook that looks for managedFields how to include them in requests.
func (p *Program) explainMissing(err error) error {
	text := err.Error()
	if fault := record.FaultOf(failure.WithSource(failure.Hook, err)); fault != nil {
		text += fault.Line
	}
	if p.FullObjects || !strings.Contains(text, "managedFields") {
		return err
	}
	return fmt.Errorf("%w; requests have no metadata.managedFields unless the controller has spec.fullObjects: true, "+
		"or in metacontroller.k8s.io the annotation %s: \"true\"", err, setpoint.AnnotationFullObjects)
}

// isHookFailure reports whether a hook caused the failure, not a write.
func isHookFailure(err error) bool {
	if _, delayed := hook.RetryDelay(err); delayed {
		return true
	}
	reason := controller.ReasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidResponse
}

// isFailure reports whether an error is a failure, not only a reason to requeue.
func isFailure(err error) bool {
	_, delayed := hook.RetryDelay(err)
	_, waits := errors.AsType[*guard.PendingError](err)
	return !delayed && !waits && !errors.Is(err, errRelatedPending) && !errors.Is(err, errIncomplete)
}

// isConflicting reports whether events must not retry a failure at once, because its own writes or
// another client's cause them.
func isConflicting(err error) bool {
	reason := controller.ReasonOf(err)
	return reason == ReasonConflicting || reason == ReasonFlapping
}

// errRelatedPending ends a run that waits for new watches of related objects. They enqueue the
// parent.
var errRelatedPending = errors.New("related objects are being listed")

// nameTakenError says what has the name of a child.
type nameTakenError string

func (e nameTakenError) Error() string { return string(e) }

// Fault classifies the error.
func (e nameTakenError) Fault() *failure.Fault { return &failure.Fault{Kind: failure.NameTaken} }
