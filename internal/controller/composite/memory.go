package composite

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// memory is the state of one parent between runs. It holds digests, not objects: losing it costs a
// hook call and some comparisons. The worker that has the parent's key owns it.
type memory struct {
	controller.Memory

	// syncedInput is the digest of the input whose response was applied in full; 0 for none.
	syncedInput uint64
	// status has the digests of the status that was sent and of the status that the server stored.
	// They differ if the schema prunes fields; prunedAt is when it did so last, zero if it did not.
	status struct {
		wanted, stored uint64
		prunedAt       time.Time
	}
	// hookConditions are the types of Setpoint's conditions that the latest response sets itself.
	hookConditions []string
	// finalResponse is a response with finalized: true that was applied, without its children; nil for none.
	finalResponse *hook.Response
	// upToDate children need no comparison until they or their desired state change.
	upToDate upToDateChildren
	// coOwned are the children with a desired field that another manager owns, by the digest of their UID;
	// nil for none.
	coOwned map[uint64]bool
	// recreating are the children that were deleted to be created again; nil for none.
	recreating map[object.Ref]bool
	// customizedParent is the digest of the parent in the last customize request; 0 for none.
	customizedParent uint64
	// customizeFailed means that the finalize hook is called although the customize hook fails.
	customizeFailed bool
	// finalizeRules are what the customize hook has selected in the deletion.
	finalizeRules []hook.RelatedRule
	// sentEvents are digests of the events in the latest response.
	sentEvents []uint64
	flapping   plan.Flapping
	// failures are those of the version of the hooks that was called last.
	failures versionFailures
	// determinism finds hooks whose responses to the same request differ. hasWritten means that
	// something was written since the latest call.
	determinism plan.DeterminismCheck
	hasWritten  bool
	// specDigest is the spec of the last run, 0 if unknown. editedAt is when it changed, and
	// editPending means that no run has succeeded since.
	specDigest  uint64
	editedAt    time.Time
	editPending bool
}

// NewMemory returns an empty memory.
func (c *Controller) NewMemory() controller.Remembered { return new(memory) }
