package react

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// remind is the step that finds out what handlers have dealt with in the time of a
// former process, where the object is another one now. It asks the server once for an
// object, and not at all for those that nobody changed.
func (r *run) remind(ctx context.Context) error {
	if r.stance != handling || r.memory.kept.looked || !r.program.KeepsOld() {
		return nil
	}
	known := r.known()
	for i := range r.program.Handlers {
		h := &r.program.Handlers[i]
		if h.KeepOld && known[h.Name].Kept && r.memory.handlers[i].handled == nil {
			return r.reminded(r.lookUp(ctx))
		}
	}
	return nil
}

// reminded is what becomes of a look that failed: one that the server refuses is not
// worth waiting for.
func (r *run) reminded(err error) error {
	if err == nil {
		return nil
	}
	if apply.Unreachable(err) {
		return failure.New(ReasonReadFailed, err)
	}
	r.memory.kept.looked = true
	r.tellOld(ReasonOldLost, fmt.Errorf("what handlers have dealt with is not known: %w", err))
	return nil
}

// lookUp finds out, once, which revisions there are of an object, and what those keep
// that handlers do not know any more. Where the record says that nothing is kept, there
// is nothing to find.
func (r *run) lookUp(ctx context.Context) error {
	k := &r.memory.kept
	if k.looked {
		return nil
	}
	if !r.anyKept() {
		k.looked = true
		return nil
	}
	selector := fmt.Sprintf("%s=%s,%s=%s", objectLabel, r.stored.UID(), recordLabel, r.program.recordName())
	found, err := r.tools.Writer.List(ctx, plan.ControllerRevisions, r.program.shelf(r.stored), selector)
	if err != nil {
		return fmt.Errorf("list the revisions of %s: %w", r.stored.Ref(), err)
	}
	k.looked = true
	for _, revision := range found {
		if revision.Deleting() {
			continue
		}
		if err := k.add(revision); err != nil {
			return err
		}
	}
	r.revive(found)
	return nil
}

// anyKept says whether an entry says that something is kept.
func (r *run) anyKept() bool {
	for _, e := range r.recorded {
		if e.Kept {
			return true
		}
	}
	return false
}

// revive tells handlers what they have dealt with, as revisions keep it.
func (r *run) revive(found []*object.Object) {
	known := r.known()
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		if !h.KeepOld || !e.Kept || m.handled != nil {
			continue
		}
		var err error
		if m.handled, err = r.formerly(found, e.Seen); err != nil {
			r.tellOld(ReasonOldLost, fmt.Errorf("what handler %s has dealt with is not known: %w", h.Name, err))
		}
	}
}

// formerly is the object as an entry has seen it.
func (r *run) formerly(found []*object.Object, seen string) (*object.Object, error) {
	name := r.program.revisionName(r.stored.UID(), seen)
	for _, revision := range found {
		if revision.Name() != name {
			continue
		}
		part, sound := keptIn(revision, seen)
		if !sound {
			return nil, fmt.Errorf("somebody changed %s", revision.Ref())
		}
		return former(r.stored, part)
	}
	return nil, fmt.Errorf("somebody deleted the ControllerRevision %s", name)
}
