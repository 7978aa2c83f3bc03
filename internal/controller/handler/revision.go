package handler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// The labels of a revision: the object and the record that names the revision.
const (
	objectLabel     = "setpoint.dev/object-uid"
	annotationLabel = "setpoint.dev/record"
)

// maxRevisionBytes limits the size of a stored state. A request to etcd is limited to 1.5 MiB.
const maxRevisionBytes = 1_400_000

// ValidateKeepPreviousState returns an error if the fields of a kind must not be stored in
// ControllerRevisions.
func ValidateKeepPreviousState(kind object.GroupKind) error {
	if kind.IsSecret() {
		return errors.New("a ControllerRevision of a Secret would expose its data; its previous state is kept in memory only")
	}
	return nil
}

// KeepsPreviousState reports whether a handler needs the previous state after a restart.
func (p *Program) KeepsPreviousState() bool {
	return slices.ContainsFunc(p.Handlers, func(h trigger.Handler) bool { return h.KeepPreviousState })
}

// revisionNamespace returns the namespace of an object's revisions.
func (p *Program) revisionNamespace(of *object.Object) string {
	if p.Resource.Namespaced {
		return of.Namespace()
	}
	return p.Namespace
}

// annotationName returns the annotation of the record as a label value.
func (p *Program) annotationName() string {
	return p.HandledAnnotation[strings.IndexByte(p.HandledAnnotation, '/')+1:]
}

// revisionName returns a name such as "rates.example.org-5f2b…". The hash includes the object,
// the record and the digest in the entry, so that a wrong revision is never used.
func (p *Program) revisionName(uid, seen string) string {
	return plan.RevisionName(p.Resource.GroupResource(), uid, p.HandledAnnotation, seen)
}

// revisionOf returns the ControllerRevision with the watched part of an object. The object
// owns it, so that both are deleted together, but does not control it: it is not an owned
// object of a handler.
func (p *Program) revisionOf(o *object.Object, seen string, part map[string]any, number int64) (*object.Object, error) {
	return object.Encode(map[string]any{
		"apiVersion": plan.ControllerRevisions.APIVersion(),
		"kind":       plan.ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name":      p.revisionName(o.UID(), seen),
			"namespace": p.revisionNamespace(o),
			"labels":    map[string]any{objectLabel: o.UID(), annotationLabel: p.annotationName()},
			"ownerReferences": []any{map[string]any{
				"apiVersion": o.APIVersion(), "kind": o.Kind(), "name": o.Name(), "uid": o.UID(),
			}},
		},
		"data":     map[string]any{"object": part},
		"revision": number,
	})
}

// revisionState returns the state in a revision, if it is what an entry has seen.
func revisionState(revision *object.Object, seen string) (map[string]any, bool) {
	part := object.DecodeOrEmpty(revision.Field("data", "object"))
	return part, lasthandled.Digest(part) == seen
}

// previousObject returns an object with the watched fields of an earlier state.
func previousObject(o *object.Object, part map[string]any) (*object.Object, error) {
	metadata := map[string]any{"name": o.Name(), "uid": o.UID()}
	if o.Namespace() != "" {
		metadata["namespace"] = o.Namespace()
	}
	return object.Encode(object.CombinePatches(part, map[string]any{"apiVersion": o.APIVersion(), "kind": o.Kind(), "metadata": metadata}))
}

// previousStates keeps what handlers have handled in ControllerRevisions, for those that need it after a restart.
type previousStates struct {
	*Controller
	*controller.Run

	pass    *trigger.Pass
	writer  writer
	history *revisionHistory
}

// store stores the states of the entries that are about to be recorded. It runs
// before the record is written, so that every revision that an entry names exists. Entries
// find revisions by digest, so a revision of a record that was never written does no harm.
func (s *previousStates) store(ctx context.Context, applied []*trigger.Response) error {
	if s.IsDry() || s.Phase != controller.PhaseManaged || s.Stored.Deleting() || !s.program.KeepsPreviousState() {
		return nil
	}
	for _, h := range s.pass.Handlers {
		e := s.pass.WrittenEntry(h, applied)
		if !h.KeepPreviousState || e.Digest == "" || e.HasRevision || h.UnstorableDigest == e.Digest || s.pass.HasPending(h, applied) {
			continue
		}
		part := s.pass.WatchedState(h, e.Digest, applied)
		if part == nil {
			continue // The handled state is not known any more.
		}
		err := s.create(ctx, e.Digest, part)
		switch {
		case err == nil:
			h.RevisionDigest, h.UnstorableDigest = e.Digest, ""
		case ctx.Err() != nil || !errors.Is(err, errTooLarge) && apply.Unreachable(err):
			return fmt.Errorf("store the previous state of handler %s: %w", h.Title(), err)
		default:
			// An event is sent once until a state is stored again; nothing waits for the
			// revision.
			if h.UnstorableDigest == "" && !apply.Terminating(err) {
				s.report(trigger.ReasonPreviousStateNotStored,
					fmt.Errorf("previous state of handler %s not stored, unknown after a restart: %w", h.Title(), err))
			}
			h.UnstorableDigest = e.Digest
		}
	}
	return nil
}

// errTooLarge means that a state is too large for a revision.
var errTooLarge = fmt.Errorf("larger than %d bytes; watch fewer fields", maxRevisionBytes)

// create creates the revision of a state, unless it exists.
func (s *previousStates) create(ctx context.Context, seen string, part map[string]any) error {
	if err := s.listRevisions(ctx); err != nil {
		return err
	}
	k := s.history
	if k.has(s.program.revisionName(s.Stored.UID(), seen)) {
		return nil
	}
	revision, err := s.program.revisionOf(s.Stored, seen, part, k.nextNumber())
	if err != nil {
		return err
	}
	if len(revision.JSON()) > maxRevisionBytes {
		return errTooLarge
	}
	began := s.Record.Now()
	stored, err := s.Tools.WriterFor(s.Stored.Namespace()).Create(ctx, plan.ControllerRevisions, revision, "")
	if apply.AlreadyExists(err) {
		stored, err = s.reuse(ctx, revision, seen)
	}
	s.Record.Wrote(began, plan.ControllerRevisions,
		record.Write{Verb: string(plan.Create), Object: revision.Ref(), After: stored, Err: err})
	if err != nil {
		return fmt.Errorf("create %s: %w", revision.Ref(), err)
	}
	s.Log.Debug("kept", "revision", revision.Ref().String(), "object", s.Stored.Ref().String())
	return k.add(stored)
}

// reuse uses an existing revision of the same name, which a record that was never
// written left behind. It deletes an invalid one.
func (s *previousStates) reuse(ctx context.Context, revision *object.Object, seen string) (*object.Object, error) {
	existing, err := s.writer.Get(ctx, plan.ControllerRevisions, revision.Namespace(), revision.Name())
	if err != nil && !apply.NotFound(err) {
		return nil, err
	}
	if err == nil {
		_, sound := revisionState(existing, seen)
		if sound && !existing.Deleting() && existing.Labels().Get(objectLabel) == s.Stored.UID() &&
			existing.Labels().Get(annotationLabel) == s.program.annotationName() {
			return existing, nil
		}
		if _, err := s.writer.Delete(ctx, plan.ControllerRevisions, existing); err != nil {
			return nil, err
		}
	}
	return s.Tools.WriterFor(s.Stored.Namespace()).Create(ctx, plan.ControllerRevisions, revision, "")
}

// prune deletes the revisions that no entry names any more. A failed deletion is
// retried after the next write.
func (s *previousStates) prune(ctx context.Context) {
	k := s.history
	if s.IsDry() || len(k.revisions) == 0 || s.Stored.Deleting() {
		return
	}
	recorded, named := s.rules.HandledStateOf(s.Stored), map[string]bool{}
	for i := range s.program.Handlers {
		if h := &s.program.Handlers[i]; h.KeepPreviousState {
			named[s.program.revisionName(s.Stored.UID(), recorded[h.Name].Digest)] = true
		}
	}
	k.revisions = slices.DeleteFunc(k.revisions, func(revision *object.Object) bool {
		if named[revision.Name()] {
			return false
		}
		began := s.Record.Now()
		_, err := s.writer.Delete(ctx, plan.ControllerRevisions, revision)
		s.Record.Wrote(began, plan.ControllerRevisions, record.Write{Verb: string(plan.Delete), Object: revision.Ref(), Err: err})
		if err != nil && !apply.Conflict(err) {
			s.Log.Info("revision not deleted; retrying after the next write", "revision", revision.Ref().String(), "error",
				failure.OneLine(err))
			return false
		}
		return true
	})
}

func (k *revisionHistory) has(name string) bool {
	return slices.ContainsFunc(k.revisions, func(revision *object.Object) bool { return revision.Name() == name })
}

// nextNumber returns the number of the next revision.
func (k *revisionHistory) nextNumber() int64 {
	last := int64(0)
	for _, revision := range k.revisions {
		last = max(last, revision.Revision())
	}
	return last + 1
}

// add adds a revision, without its data.
func (k *revisionHistory) add(revision *object.Object) error {
	small, err := object.Encode(map[string]any{
		"apiVersion": revision.APIVersion(), "kind": revision.Kind(),
		"metadata": map[string]any{"name": revision.Name(), "namespace": revision.Namespace(), "uid": revision.UID()},
		"revision": revision.Revision(),
	})
	if err == nil {
		k.revisions = append(k.revisions, small)
	}
	return err
}

// report reports that a handler will not get a previous state. It is no failure,
// because nothing waits for it.
func (s *previousStates) report(reason string, err error) {
	s.Log.Warn("previous state not known", "object", s.Stored.Ref().String(), "reason", reason, "error", failure.OneLine(err))
	s.SendEvent(hook.Event{Type: controller.Warning, Reason: reason, Message: failure.OneLine(err)})
}

// load is the step that loads what handlers handled in an earlier process, if
// the object has changed since. It makes one request for such an object, and none for an
// unchanged one.
func (s *previousStates) load(ctx context.Context) error {
	if s.Phase != controller.PhaseManaged || s.history.listed || !s.program.KeepsPreviousState() {
		return nil
	}
	if slices.ContainsFunc(s.pass.Handlers, (*trigger.State).LacksPreviousState) {
		return s.listError(s.listRevisions(ctx))
	}
	return nil
}

// listError returns the error of a failed list, or nil after reporting it: a rejected
// request is not worth a retry.
func (s *previousStates) listError(err error) error {
	if err == nil {
		return nil
	}
	if apply.Unreachable(err) {
		return failure.WithReason(trigger.ReasonReadFailed, err)
	}
	s.history.listed = true
	s.report(trigger.ReasonPreviousStateLost, fmt.Errorf("previous state unknown: %w", err))
	return nil
}

// listRevisions lists, once, the revisions of an object and restores the states that handlers
// need. It makes no request if the record names no revision.
func (s *previousStates) listRevisions(ctx context.Context) error {
	k := s.history
	if k.listed {
		return nil
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.pass.Recorded)), func(e lasthandled.Entry) bool { return e.HasRevision }) {
		k.listed = true
		return nil
	}
	selector := fmt.Sprintf("%s=%s,%s=%s", objectLabel, s.Stored.UID(), annotationLabel, s.program.annotationName())
	found, err := s.writer.List(ctx, plan.ControllerRevisions, s.program.revisionNamespace(s.Stored), selector)
	if err != nil {
		return fmt.Errorf("list the revisions of %s: %w", s.Stored.Ref(), err)
	}
	k.listed = true
	for _, revision := range found {
		if revision.Deleting() {
			continue
		}
		if err := k.add(revision); err != nil {
			return err
		}
	}
	s.restore(found)
	return nil
}

// restore sets the handled states of handlers from revisions.
func (s *previousStates) restore(found []*object.Object) {
	for _, h := range s.pass.Handlers {
		if !h.LacksPreviousState() {
			continue
		}
		var err error
		if h.Handled, err = s.stateIn(found, h.Entry().Digest); err != nil {
			s.report(trigger.ReasonPreviousStateLost, fmt.Errorf("previous state of handler %s unknown: %w", h.Title(), err))
		}
	}
}

// stateIn returns the object as an entry has seen it.
func (s *previousStates) stateIn(found []*object.Object, seen string) (*object.Object, error) {
	name := s.program.revisionName(s.Stored.UID(), seen)
	i := slices.IndexFunc(found, func(revision *object.Object) bool { return revision.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("ControllerRevision %s was deleted", name)
	}
	part, sound := revisionState(found[i], seen)
	if !sound {
		return nil, fmt.Errorf("another client changed %s", found[i].Ref())
	}
	return previousObject(s.Stored, part)
}
