package engine

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// storeStatus is the step that writes the status of the latest reply, if it is
// another than the stored one.
func (r *run) storeStatus(ctx context.Context) error {
	if r.parent == r.stored || r.statusIsKnown() || !r.still() {
		return nil
	}
	stored, err := r.tools.Writer.UpdateStatus(ctx, r.program.Parent, r.parent)
	switch {
	case apply.Conflict(err), apply.Gone(err):
		r.memory.answered = 0
		return errMoved
	case err != nil:
		r.memory.answered = 0
		return failed(ReasonWriteFailed, fmt.Errorf("store the status of %s: %w", r.parent.Ref(), err))
	}
	r.parents.Wrote(stored)
	r.memory.status.wanted, r.memory.status.stored = statusDigest(r.parent), statusDigest(stored)
	if r.memory.answered != 0 {
		// The hook has answered this input already, but for what the server
		// made of its own status.
		r.memory.answered = r.inputOf(stored)
	}
	return nil
}

// statusIsKnown says that this very status was stored before, and that what the
// server made of it is still there.
func (r *run) statusIsKnown() bool {
	known := r.memory.status
	return known.wanted != 0 && known.wanted == statusDigest(r.parent) && known.stored == statusDigest(r.stored)
}

func statusDigest(o *object.Object) uint64 { return object.DigestOf(o.Field("status")) }
