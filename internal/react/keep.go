package react

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// kept are the revisions of an object that are known to be there.
type kept struct {
	// looked says that the server was asked, or need not be.
	looked bool
	// revisions have no data: who keeps it in memory need not keep it elsewhere.
	revisions []*object.Object
}

// keep stores what handlers have dealt with, as the entries have it that are about to
// be recorded. That comes before the record: whatever an entry says is kept, is. It is
// found by the digest in the entry, so that what was stored for a record that was
// never written is not taken for anything.
func (r *run) keep(ctx context.Context, carried []*owed) error {
	if r.stance != handling || r.stored.Deleting() || !r.program.KeepsOld() {
		return nil
	}
	known := r.known()
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		if !h.KeepOld || e.Seen == "" || e.Kept || m.unkept == e.Seen || r.memory.owes(i, carried) {
			continue
		}
		part := r.state(i, e.Seen)
		if part == nil {
			continue // What it has dealt with is known to nobody any more.
		}
		err := r.keepState(ctx, e.Seen, part)
		switch {
		case err == nil:
			e.Kept, m.unkept = true, ""
			m.pending = &e
		case ctx.Err() != nil || !errors.Is(err, errTooLarge) && apply.Unreachable(err):
			return fmt.Errorf("keep what handler %s has dealt with: %w", h.Name, err)
		default:
			// Nothing waits for it. It is told until it is well, once.
			if m.unkept == "" && !tolerable(err) {
				r.tellOld(ReasonOldNotKept, fmt.Errorf("what handler %s has dealt with will not be known after a restart: %w", h.Name, err))
			}
			m.unkept = e.Seen
		}
	}
	return nil
}

// state is what a handler watches of the object as it was seen; nil if that is not at
// hand: as it was answered, as it is, or as it was.
func (r *run) state(handler int, seen string) map[string]any {
	h, m := &r.program.Handlers[handler], &r.memory.handlers[handler]
	for _, o := range []*object.Object{m.answered, r.stored, m.handled} {
		if o == nil {
			continue
		}
		if part := h.watched(o); digest(part) == seen {
			return part
		}
	}
	return nil
}

// errTooLarge says that a state does not fit into a revision.
var errTooLarge = fmt.Errorf("it is larger than %d bytes; have the handler watch fewer fields", maxKept)

// keepState makes the revision of a state, if it is not there.
func (r *run) keepState(ctx context.Context, seen string, part map[string]any) error {
	if err := r.lookUp(ctx); err != nil {
		return err
	}
	k := &r.memory.kept
	if k.find(r.program.revisionName(r.stored.UID(), seen)) != nil {
		return nil
	}
	revision, err := r.program.revisionOf(r.stored, seen, part, k.next())
	if err != nil {
		return err
	}
	if len(revision.JSON()) > maxKept {
		return errTooLarge
	}
	began := r.account.Now()
	stored, err := r.tools.Writer.Create(ctx, plan.ControllerRevisions, revision)
	if apply.Exists(err) {
		stored, err = r.meet(ctx, revision, seen)
	}
	r.account.Wrote(began, trace.Write{Verb: plan.Create, Resource: plan.ControllerRevisions, Ref: revision.Ref(), After: stored, Err: err})
	if err != nil {
		return fmt.Errorf("create %s: %w", revision.Ref(), err)
	}
	r.log.Debug("kept", "revision", revision.Ref().String(), "object", r.stored.Ref().String())
	return k.add(stored)
}

// meet looks at what has the name of a revision that is to be made: the same one, made
// for a record that was never written. One that was spoilt gives way.
func (r *run) meet(ctx context.Context, revision *object.Object, seen string) (*object.Object, error) {
	live, err := r.tools.Writer.Get(ctx, plan.ControllerRevisions, revision.Namespace(), revision.Name())
	if err != nil && !apply.Gone(err) {
		return nil, err
	}
	if err == nil {
		_, sound := keptIn(live, seen)
		if sound && !live.Deleting() && live.Labels().Get(objectLabel) == r.stored.UID() && live.Labels().Get(recordLabel) == r.program.recordName() {
			return live, nil
		}
		if _, err := r.tools.Writer.Delete(ctx, plan.ControllerRevisions, live); err != nil {
			return nil, err
		}
	}
	return r.tools.Writer.Create(ctx, plan.ControllerRevisions, revision)
}

// tidy deletes the revisions that no entry of the record names any more. What cannot be
// deleted is tried again after the next write.
func (r *run) tidy(ctx context.Context) {
	k := &r.memory.kept
	if !r.written || len(k.revisions) == 0 || r.stored.Deleting() {
		return
	}
	recorded, named := r.program.recordOf(r.stored), map[string]bool{}
	for i := range r.program.Handlers {
		if h := &r.program.Handlers[i]; h.KeepOld {
			named[r.program.revisionName(r.stored.UID(), recorded[h.Name].Seen)] = true
		}
	}
	k.revisions = slices.DeleteFunc(k.revisions, func(revision *object.Object) bool {
		if named[revision.Name()] {
			return false
		}
		began := r.account.Now()
		_, err := r.tools.Writer.Delete(ctx, plan.ControllerRevisions, revision)
		r.account.Wrote(began, trace.Write{Verb: plan.Delete, Resource: plan.ControllerRevisions, Ref: revision.Ref(), Err: err})
		if err != nil && !apply.Conflict(err) {
			r.log.Info("revision not deleted; tried again after the next write", "revision", revision.Ref().String(), "error", failure.OneLine(err))
			return false
		}
		return true
	})
}

func (k *kept) find(name string) *object.Object {
	for _, revision := range k.revisions {
		if revision.Name() == name {
			return revision
		}
	}
	return nil
}

// next is the number of the next revision.
func (k *kept) next() int64 {
	last := int64(0)
	for _, revision := range k.revisions {
		last = max(last, numberOf(revision))
	}
	return last + 1
}

// add notes a revision, without its data.
func (k *kept) add(revision *object.Object) error {
	small, err := objectOf(map[string]any{
		"apiVersion": revision.APIVersion(), "kind": revision.Kind(),
		"metadata": map[string]any{"name": revision.Name(), "namespace": revision.Namespace(), "uid": revision.UID()},
		"revision": numberOf(revision),
	})
	if err == nil {
		k.revisions = append(k.revisions, small)
	}
	return err
}

// tellOld says that a handler will not be told what it has dealt with. It is no
// failure: nothing waits for it.
func (r *run) tellOld(reason string, err error) {
	r.log.Warn("old object not known", "object", r.stored.Ref().String(), "reason", reason, "error", failure.OneLine(err))
	r.say(hook.Event{Type: warning, Reason: reason, Message: failure.OneLine(err)})
}
