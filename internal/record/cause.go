package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// causeTexts returns the causes of a run, the most important first.
func (r *Run) causeTexts() []string {
	if r.Trigger != "" {
		return []string{r.Trigger}
	}
	list, more := slices.Clone(r.Queued.List()), r.Queued.More()
	if r.Queued.Has(queue.Start) {
		// Objects in the initial list have not changed.
		more = 0
		list = slices.DeleteFunc(list, func(c queue.Cause) bool {
			return c.Kind == queue.Start || c.Kind == queue.ChildChanged || c.Kind == queue.RelatedChanged
		})
		list = append(list, queue.Cause{Kind: queue.Start}) // It may have been displaced by other causes.
	}
	slices.SortStableFunc(list, func(a, b queue.Cause) int { return cmp.Compare(causeRank(a.Kind), causeRank(b.Kind)) })
	causes := make([]string, 0, len(list)+1)
	for _, cause := range list {
		causes = append(causes, describeCause(cause))
	}
	if more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	return causes
}

// causeRank orders causes: user actions, then changes, then timers.
func causeRank(kind queue.CauseKind) int {
	switch kind {
	case queue.ReconcileRequested, queue.LogicChanged, queue.HookChanged:
		return 0
	case queue.ParentChanged:
		return 1
	case queue.ChildChanged, queue.RelatedChanged:
		return 2
	case queue.StatusChanged:
		return 3
	case queue.Retrying:
		return 5
	}
	return 4
}

// describeCause returns the text of a cause.
func describeCause(cause queue.Cause) string {
	switch cause.Kind {
	case queue.ParentChanged:
		return "the object changed"
	case queue.StatusChanged:
		return "the object's status changed"
	}
	return cause.String()
}

// IsPrimaryCause reports whether a cause explains a run regardless of other changes: a
// manual reconcile or a new version of the hook.
func IsPrimaryCause(cause string) bool {
	return strings.HasPrefix(cause, queue.ReconcileRequested.String()) || IsLogicCause(cause)
}

// IsLogicCause reports whether a cause says that the hook, or its version, changed.
func IsLogicCause(cause string) bool {
	return strings.HasPrefix(cause, queue.LogicChanged.String()) || cause == queue.HookChanged.String()
}
