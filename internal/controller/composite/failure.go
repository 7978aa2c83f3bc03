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

// Reasons of events on parents, and of the conditions Synced, Reconciling and Stalled.
const (
	// ReasonHookFailed: the hook is unreachable, timed out, returned another status than 200, or its code failed or
	// panicked. What to do: see the error in the message, and the log of the hook; `setpoint why` has the request.
	ReasonHookFailed = "HookFailed"
	// ReasonInvalidResponse: the response of the hook is invalid; the message has the field path. What to do: correct
	// the response at that path. Nothing of it was applied.
	ReasonInvalidResponse = "InvalidResponse"
	// ReasonInvalidParent: the parent has no spec.selector, or an invalid one. What to do: set spec.selector on the
	// parent, or generateSelector on the controller.
	ReasonInvalidParent = "InvalidParent"
	// ReasonConflicting: the hook returns different responses to the same request, or each response changes the next
	// request. The message names the field. What to do: leave out of the response what changes from call to call, such
	// as times and random values.
	ReasonConflicting = "Conflicting"
	// ReasonFlapping: another client or the API server keeps changing a child. The message names the field and the
	// field manager. Setpoint waits up to 30 s before it writes the child again. What to do: leave the field to that
	// client, or make it stop; a field that the API server changes belongs out of the response.
	ReasonFlapping = "Flapping"
	// ReasonNamespaceIgnored: a child of a cluster-scoped kind has a namespace, which Setpoint ignores. What to do:
	// remove the namespace from the child.
	ReasonNamespaceIgnored = "NamespaceIgnored"
	// ReasonChildUndeclared: a controller of metacontroller.k8s.io does not declare the kind of a child, which
	// Setpoint leaves out. The message has the line to add to the controller. What to do: add that line.
	ReasonChildUndeclared = "ChildUndeclared"
	// ReasonStatusIgnored: another controller of the same parent takes precedence and stores the status. What to do:
	// return a status from only one of the two controllers.
	ReasonStatusIgnored = "StatusIgnored"
	// ReasonRolloutFailed: Setpoint cannot read or store the revisions of the parent. What to do: mend what the
	// message says, such as a permission for controllerrevisions.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonDeletionsHeld: the deletion guard holds deletions of children until a user confirms them or the hook
	// desires the children again. What to do: correct the hook, or confirm with `setpoint allow-deletions`.
	ReasonDeletionsHeld = "DeletionsHeld"
	// ReasonRelatedMissing: Setpoint cannot read related objects that the customize hook selects. What to do: mend
	// what the message says: the kind is not served, or a permission is missing.
	ReasonRelatedMissing = "RelatedMissing"
)

var (
	// errIncomplete ends a run that has used its passes and continues in the next run.
	errIncomplete = errors.New("continued in the next run")
	// errRelatedPending ends a run that waits for new watches of related objects. They enqueue the parent.
	errRelatedPending = errors.New("related objects are being listed")
)

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

// isConflicting reports whether events must not retry a failure at once, because writes about it cause them.
func isConflicting(err error) bool {
	reason := controller.ReasonOf(err)
	return reason == ReasonConflicting || reason == ReasonFlapping
}
