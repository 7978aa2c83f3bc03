package manager

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// refusal is why a controller object whose spec is understood does not run. The
// condition Accepted of the object as it is says it. Where there is none yet, or that
// of an earlier generation, what refuses controllers is looked for in the cluster; the
// notes say what could not be found out.
func (m *Manager) refusal(ctx context.Context, declared *object.Object, compiled *compile.Compiled) (why *compile.Refusal, notes []string, err error) {
	condition := meta.FindStatusCondition(storedStatus(declared).Conditions, setpoint.ConditionAccepted)
	if condition != nil && condition.ObservedGeneration == declared.Generation() {
		return reportedRefusal(condition), nil, nil
	}
	kind, _ := KindOf(declared)
	if kind.Metacontroller() {
		note, err := m.metacontrollers.conflict(ctx, declared)
		if refused, is := errors.AsType[*compile.Refusal](err); is {
			return refused, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		notes = appendNote(notes, note)
	}
	why, note, err := m.checkOlder(ctx, declared, compiled)
	return why, appendNote(notes, note), err
}

func appendNote(notes []string, note string) []string {
	if note == "" {
		return notes
	}
	return append(notes, note)
}

// reportedRefusal is what the condition Accepted says; nil if it is not False.
func reportedRefusal(accepted *metav1.Condition) *compile.Refusal {
	if accepted.Status != metav1.ConditionFalse {
		return nil
	}
	return &compile.Refusal{Reason: accepted.Reason, Err: errors.New(accepted.Message)}
}

// checkOlder refuses a controller whose work a stored one that is older, and runs, would undo. One that is not stored is younger than all.
func (m *Manager) checkOlder(ctx context.Context, declared *object.Object, compiled *compile.Compiled) (why *compile.Refusal, note string, err error) {
	rank := rankOf(declared)
	if declared.Version() == 0 {
		rank = "~"
	}
	for _, kind := range compile.Kinds() {
		if kind.Resource.Kind != "CompositeController" {
			continue // The others do not compete.
		}
		stored, err := m.dryRunWriter().List(ctx, kind.Resource, "", "")
		switch {
		case apply.NotFound(err):
			continue
		case apierrors.IsForbidden(err):
			note = fmt.Sprintf("it could not be found out whether another controller has the same objects (%v)", err)
			continue
		case err != nil:
			return nil, note, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, other := range stored {
			if other.Ref() == declared.Ref() && other.APIVersion() == declared.APIVersion() || rankOf(other) > rank {
				continue
			}
			if found, conflicts := m.conflictWith(ctx, kind, other, compiled); conflicts {
				conflicting, _ := errors.AsType[*compile.Refusal](conflictRefusal(queue.Key{Namespace: kind.Name, Name: other.Name()}, found))
				return conflicting, note, nil
			}
		}
	}
	return nil, note, nil
}

// conflictWith says whether a stored controller runs, and what it and another one would undo of
// each other.
func (m *Manager) conflictWith(ctx context.Context, kind compile.Kind, other *object.Object, compiled *compile.Compiled) (controllerConflict, bool) {
	if meta.IsStatusConditionFalse(storedStatus(other).Conditions, setpoint.ConditionAccepted) || other.Deleting() {
		return controllerConflict{}, false
	}
	theirs, err := kind.Compile(ctx, other, m.compileEnvironment())
	if err != nil {
		return controllerConflict{}, false // It is refused.
	}
	defer theirs.Release()
	if theirs.Suspended {
		return controllerConflict{}, false
	}
	return findConflict(theirs, compiled)
}
