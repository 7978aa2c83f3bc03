package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// systemFields are the fields of metadata that the API server sets. A handler may return them
// with an object, so apply removes them.
var systemFields = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// applyObject applies one object. Ownership is checked only for owned kinds.
func (r *run) applyObject(ctx context.Context, a hook.AppliedObject) error {
	resource, desired, err := r.desiredObject(a)
	switch {
	case err != nil:
		return err
	case resource.Unserved && r.Stored.Deleting():
		r.Log.Debug("not applied: the kind is not served", "applied", desired.Ref().String())
		return nil
	case resource.Unserved:
		// No watch would show it: the next run would see it as deleted, which is drift.
		return fmt.Errorf("apply %s: %s: %w any more", desired.Ref(), resource, served.ErrNotServed)
	case r.isUnchanged(desired):
		return nil
	}
	began, write := r.Record.Now(), r.newWrite(resource, desired)
	stored, err := r.createOrApply(ctx, resource, desired)
	write.After, write.Err = stored, err
	r.Record.Wrote(began, write)
	if apply.Terminating(err) {
		// The namespace accepts no new objects.
		r.Log.Debug("not applied: namespace is terminating", "applied", desired.Ref().String())
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", desired.Ref(), err)
	}
	r.noteWritten(resource, stored)
	r.rememberApplied(desired, stored)
	r.Log.Debug("applied", "applied", desired.Ref().String(), "object", r.Stored.Ref().String())
	return nil
}

// newWrite returns the record of a write, as far as it is known before the write.
func (r *run) newWrite(resource object.Resource, desired *object.Object) record.Write {
	known, watched := r.watchedObject(resource, desired)
	w := record.Write{Verb: plan.Apply, Resource: resource, Ref: desired.Ref(), Before: known}
	if watched && known == nil {
		w.Verb = plan.Create
	}
	return w
}

// createOrApply creates or applies an object. It creates an owned object unless a watch
// already has it: a POST costs the API server less than an apply, and fails if another owner
// has the name.
func (r *run) createOrApply(ctx context.Context, resource object.Resource, desired *object.Object) (*object.Object, error) {
	writer, manager := r.writer(), r.program.Manager
	known, watched := r.watchedObject(resource, desired)
	if !watched || !r.isOwned(desired) || known != nil && r.isOwned(known) {
		return writer.Apply(ctx, resource, desired, manager)
	}
	stored, err := writer.CreateFor(ctx, resource, desired, manager)
	if !apply.AlreadyExists(err) {
		return stored, err
	}
	if err := r.checkOwnership(ctx, resource, desired); err != nil {
		return nil, err
	}
	return writer.Apply(ctx, resource, desired, manager)
}

// checkOwnership returns an error if the object exists and may not be taken over. It may if
// the handled object controls it, or if the program created it and another client removed the
// owner reference. Without this check, deleting the handled object would delete objects of
// others.
func (r *run) checkOwnership(ctx context.Context, resource object.Resource, desired *object.Object) error {
	existing, err := r.writer().Ownership(ctx, resource, desired.Namespace(), desired.Name())
	if err != nil {
		return fmt.Errorf("it already exists; read its owner: %w", err)
	}
	owner, owned := existing.Controller()
	switch {
	case r.isOwned(existing.Object):
		return nil
	case owned:
		return fmt.Errorf("it already exists and is owned by %s %s", owner.Kind, owner.Name)
	case slices.Contains(existing.Managers, r.program.Manager):
		return nil
	}
	return errors.New("it already exists and has no owner; delete it or use another name")
}

// watchedObject returns an object from the watches, or nil. watched is false if the watches do
// not cover it, so that nil means nothing.
func (c *Controller) watchedObject(resource object.Resource, o *object.Object) (known *object.Object, watched bool) {
	for _, w := range c.owned {
		if w.Covers(resource, o) {
			return w.View.Get(o.Namespace(), o.Name()), true
		}
	}
	return nil, false
}

// desiredObject returns an object in the form to apply, and its kind.
func (r *run) desiredObject(a hook.AppliedObject) (object.Resource, *object.Object, error) {
	given, err := object.Parse(a.Object)
	if err != nil {
		return object.Resource{}, nil, err
	}
	resource, err := r.program.resourceToApply(r.Stored.Namespace(), given)
	if err != nil {
		return object.Resource{}, nil, err
	}
	desired, err := r.withOwner(resource, given, a.Unowned)
	return resource, desired, err
}

// withOwner returns an object with the namespace and the owner reference added where they are
// missing.
func (r *run) withOwner(resource object.Resource, given *object.Object, unowned bool) (*object.Object, error) {
	text := given.Field("metadata")
	if text == nil {
		return nil, fmt.Errorf("apply %s: metadata must be an object", given.Ref())
	}
	metadata := decodeObject(text)
	for _, name := range systemFields {
		delete(metadata, name)
	}
	delete(metadata, "namespace")
	namespace := namespaceFor(resource, r.Stored.Namespace(), given.Namespace())
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if !unowned && (r.Stored.Namespace() == "" || r.Stored.Namespace() == namespace) {
		owners, _ := metadata["ownerReferences"].([]any)
		metadata["ownerReferences"] = append(withoutOwner(owners, r.Stored.UID()), plan.OwnerReferenceTo(r.Stored))
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	return given.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata"}, Value: text})
}

// withoutOwner returns the owner references without those to one UID.
func withoutOwner(owners []any, uid string) []any {
	var kept []any
	for _, owner := range owners {
		if members, isObject := owner.(map[string]any); !isObject || members["uid"] != uid {
			kept = append(kept, owner)
		}
	}
	return kept
}

// isOwned reports whether the handled object controls an object.
func (r *run) isOwned(o *object.Object) bool { return o.ControlledBy(r.Stored.UID()) }

// applicability is what a conditional handler said about one state of the object. It is kept in
// memory only: another process asks again.
type applicability struct {
	// state is the digest of the whole object for which the handler is not applicable with the
	// declined reasons.
	state    string
	declined []hook.Reason
	// matchState is the state for which applicable is the response to hook.ReasonMatch, failedState
	// one for which the handler gave up, and matchAttempt counts the failed calls.
	matchState   string
	applicable   bool
	failedState  string
	matchAttempt attempt
}

// decline records that a handler is not applicable with the reason of a call.
func (r *run) decline(c call) {
	if c.reason == hook.ReasonEvent {
		return // Each event is called for anyway.
	}
	h, state := c.handler, r.state()
	if handled, outdated := h.basisOf(c); outdated && c.reason == hook.ReasonUpdate {
		// Its steps until now have seen a state that is to be compared with.
		e := h.entry()
		r.settle(c, &e, handled, false)
		h.pendingEntry, h.failed = &e, nil
		return
	}
	if h.state != state {
		h.state, h.declined = state, nil
	}
	h.declined = append(h.declined, c.reason)
	switch {
	case c.reason != hook.ReasonTimer:
	case h.FromFirstSeen:
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	default:
		h.ticked(c, r.tools.Now())
	}
	h.succeed()
}

// declines reports whether a handler said that it is not applicable with a reason.
func (r *run) declines(h *handlerMemory, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == r.state() && !r.retriesCalls()
}

// needsMatch reports whether Setpoint must know in advance if the handler is applicable: before a
// deletion, or to start a daemon.
func (h *Handler) needsMatch() bool { return h.Conditional && h.needsFinalizer() }

// isApplicable reports whether a handler handles the object as it is. It is not known while
// hook.ReasonMatch fails.
func (r *run) isApplicable(h *handlerMemory) (applicable, known bool) {
	switch {
	case !h.matches(nil, r.Stored):
		return false, true
	case h.needsFinalizer() && !r.holds(h, h.lastReason(), nil, r.Stored):
		return false, !slices.Contains(r.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == r.state() || r.IsDry() && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// lacksMatch reports whether hook.ReasonMatch is to be called. An object in deletion needs no such
// call: the response to hook.ReasonDelete says it.
func (r *run) lacksMatch(h *handlerMemory) bool {
	if !h.needsMatch() || r.Phase != controller.PhaseManaged || r.Stored.Deleting() || !h.matches(nil, r.Stored) ||
		!r.holds(h, h.lastReason(), nil, r.Stored) {
		return false
	}
	state := r.state()
	return r.retriesCalls() || h.matchState != state && h.failedState != state
}

// awaitsMatch reports whether calls of a handler wait for hook.ReasonMatch, because the object may
// need the finalizer first.
func (r *run) awaitsMatch(h *handlerMemory) bool {
	_, known := r.isApplicable(h)
	return !known && !r.Stored.Deleting() && !r.program.hasFinalizer(r.Stored)
}

// matchHandlers is the step that finds out which conditional handlers are applicable.
func (r *run) matchHandlers(ctx context.Context) error {
	if r.dry != nil && r.dry.skipCalls {
		return nil
	}
	for _, h := range r.memory.handlers {
		if now := r.tools.Now(); r.lacksMatch(h) && (r.retriesCalls() || !r.matchTime(h, now).After(now)) {
			r.matchHandler(ctx, h)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// nextMatch returns when hook.ReasonMatch is to be called; zero if it is not.
func (r *run) nextMatch(now time.Time) time.Time {
	var next time.Time
	for _, h := range r.memory.handlers {
		if r.lacksMatch(h) {
			next = earliest(next, r.matchTime(h, now))
		}
	}
	return next
}

// matchTime returns when hook.ReasonMatch may be called: not in a backoff, and not while the object
// is throttled.
func (r *run) matchTime(h *handlerMemory, now time.Time) time.Time {
	at := latest(now, h.matchAttempt.next)
	if r.memory.throttle.blocks(now) && !r.IsDry() {
		at = latest(at, r.memory.throttle.until)
	}
	return at
}

// matchHandler calls a handler with hook.ReasonMatch. A failed call leaves the finalizer as it is.
func (r *run) matchHandler(ctx context.Context, h *handlerMemory) {
	a, state := h.applicability, r.state()
	n := r.newRequest(h.Handler, r.Stored)
	n.Reason, n.DryRun, n.Owned = hook.ReasonMatch, r.IsDry(), r.program.ownedGroups(r.owned)
	n.Attempt, n.FirstAttempt = a.matchAttempt.count, a.matchAttempt.since
	r.countChange(call{handler: h, reason: hook.ReasonMatch, object: r.Stored, repeated: n.Attempt > 0})
	response, err := r.invoke(ctx, r.Run, n, h.Handler)
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		r.matchFailed(h, state, err)
	default:
		if a.matchAttempt.count > 0 {
			h.failed = nil
		}
		a.matchState, a.applicable, a.failedState, a.matchAttempt = state, !response.NotApplicable, "", attempt{}
	}
}

func (r *run) matchFailed(h *handlerMemory, state string, err error) {
	a, now := h.applicability, r.tools.Now()
	if a.matchAttempt.count == 0 {
		a.matchAttempt.since = now
	}
	a.matchAttempt.count++
	a.matchAttempt.next = now.Add(h.delay(err, a.matchAttempt.count, r.tools.Queue.Random))
	reason := handlerFailureReason(err)
	err = fmt.Errorf("handler %s: %w", h.title(), err)
	if hook.IsTerminal(err) {
		a.failedState, a.matchAttempt, reason = state, attempt{}, ReasonGaveUp
		err = fmt.Errorf("gave up: %w", err)
	}
	r.recordError(h, failure.WithReason(reason, err))
}

// state returns the digest of the whole object: the handler may look at any part of it.
func (r *run) state() string {
	if d := &r.digests; d.state == "" || d.stateOf != r.Stored {
		d.stateOf, d.state = r.Stored, r.program.stateDigest(r.Stored)
	}
	return r.digests.state
}

// stateDigest returns the digest of an object without what Setpoint itself and every write change.
func (p *Program) stateDigest(o *object.Object) string {
	whole := decodeObject(o.JSON())
	metadata, _ := whole["metadata"].(map[string]any)
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		delete(metadata, name)
	}
	if others := p.withoutOwnFinalizers(o); len(others) > 0 {
		metadata["finalizers"] = others
	} else {
		delete(metadata, "finalizers")
	}
	removeBookkeeping(whole)
	removeOwnCondition(whole)
	return lasthandled.Digest(whole)
}

// removeOwnCondition removes the condition that Setpoint itself sets.
func removeOwnCondition(whole map[string]any) {
	status, _ := whole["status"].(map[string]any)
	conditions, isList := status["conditions"].([]any)
	if !isList {
		return
	}
	status["conditions"] = slices.DeleteFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["type"] == ConditionHandled
	})
}

// evictionRetryDelay is the delay after a refused eviction. A refusal is not a failure.
const evictionRetryDelay = 2 * time.Second

// evictionEventDelay is how long budgets refuse evictions before Setpoint sends an event. A
// budget that allows one pod at a time refuses often, for a moment.
const evictionEventDelay = 10 * time.Second

// errEvictionRefused means that a budget refused some evictions of a response.
var errEvictionRefused = errors.New("a PodDisruptionBudget allows no more evictions now")

// apply deletes and applies the objects of a response and reports whether all is done. It
// retries with backoff, without another call of the handler.
func (r *run) apply(ctx context.Context, o *pendingResponse) bool {
	now, m := r.tools.Now(), o.call.handler
	if !o.applied && !o.fresh && o.attempt.next.After(now) && !r.retriesWrites() {
		return false
	}
	applied := o.applied
	err := r.applyResponse(ctx, o)
	if r.dry != nil && err != nil {
		r.dry.notApplied(err)
	}
	switch {
	case err == nil:
		if !applied {
			if o.attempt.count > 0 {
				m.failed = nil
			}
			o.attempt, m.eviction = attempt{}, evictionWait{}
		}
		return true
	case ctx.Err() != nil:
	case errors.Is(err, errEvictionRefused):
		o.attempt.next = now.Add(evictionRetryDelay)
		r.reportRefusedEviction(&m.eviction, err)
	case hook.IsTerminal(err):
		r.dropRefused(o, err)
	default:
		o.attempt.failed(now, r.tools.Queue.Random)
		r.recordError(o.call.handler, failure.WithReason(controller.ReasonWriteFailed,
			fmt.Errorf("handler %s: %w", o.call.handler.title(), err)))
	}
	return false
}

// evictionWait records since when budgets refuse the evictions of a handler, and whether an
// event was sent.
type evictionWait struct {
	since    time.Time
	reported bool
}

// reportRefusedEviction sends one event when budgets have refused for long, also if the
// handler was called again meanwhile.
func (r *run) reportRefusedEviction(f *evictionWait, err error) {
	switch now := r.tools.Now(); {
	case f.since.IsZero():
		f.since = now
	case !f.reported && now.Sub(f.since) >= evictionEventDelay:
		f.reported = true
		message := failure.OneLine(err)
		r.Log.Warn("eviction refused", "object", r.Stored.Ref().String(), "error", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: ReasonEvictionRefused, Message: message})
	}
}

// dropRefused drops a response that can never be applied.
func (r *run) dropRefused(o *pendingResponse, err error) {
	r.drop(o)
	o.takeBack()
	r.giveUp(o.call, fmt.Errorf("handler %s: %w", o.call.handler.title(), err))
}

// ownedWritten records a write to an owned object; stored is nil after a deletion.
func (r *run) ownedWritten(ref object.Ref, stored *object.Object) {
	r.stale, r.applied = true, true
	r.noteApplied(ref, stored)
	r.ownedNow = slices.DeleteFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == ref })
	if stored != nil && stored.ControlledBy(r.Stored.UID()) {
		r.ownedNow = append(r.ownedNow, stored)
	}
}

// applyResponse deletes objects first, and then applies.
func (r *run) applyResponse(ctx context.Context, o *pendingResponse) error {
	if o.applied {
		return nil
	}
	if err := r.resolveDeletions(ctx, o); err != nil {
		return err
	}
	if err := r.deleteAll(ctx, o); err != nil {
		return err
	}
	for _, a := range o.response.Apply[o.appliedCount:] {
		if err := r.applyObject(ctx, a); err != nil {
			return err
		}
		o.appliedCount++
	}
	o.applied = true
	return nil
}

// noteWritten updates the caches after a write.
func (r *run) noteWritten(resource object.Resource, stored *object.Object) {
	r.ObserveWrite(resource, stored)
	if slices.Contains(r.program.Owns, resource) {
		r.ownedWritten(stored.Ref(), stored)
	}
}

// noteDeleted updates the caches after a deletion.
func (r *run) noteDeleted(resource object.Resource, o *object.Object) {
	r.ObserveDelete(resource, o)
	if slices.Contains(r.program.Owns, resource) {
		r.ownedWritten(o.Ref(), nil)
	}
}

// conflictingFields returns the fields that a response sets and that have changed since the
// handler saw them. With partlyWritten, fields that already have the value of the response are
// none: an earlier attempt may have written them.
func conflictingFields(a *hook.HandlerResponse, seen, now *object.Object, partlyWritten bool) []string {
	patch := responsePatch(a, true)
	if patch == nil || seen == now || now.Digest() == seen.Digest() {
		return nil
	}
	c := fieldConflicts{partlyWritten: partlyWritten}
	c.compare("", patch, decodeObject(seen.JSON()), decodeObject(now.JSON()))
	slices.Sort(c.fields)
	return c.fields
}

// fieldConflicts collects the leaves of a patch at which two trees differ.
type fieldConflicts struct {
	partlyWritten bool
	fields        []string
}

func (c *fieldConflicts) compare(path string, patch, seen, now map[string]any) {
	for name, value := range patch {
		at := strings.TrimPrefix(path+"."+name, ".")
		inner, isObject := value.(map[string]any)
		before, _ := seen[name].(map[string]any)
		after, wasObject := now[name].(map[string]any)
		switch {
		case isObject && (wasObject || now[name] == nil):
			c.compare(at, inner, before, after)
		case reflect.DeepEqual(seen[name], now[name]), c.partlyWritten && reflect.DeepEqual(now[name], value):
		default:
			c.fields = append(c.fields, at)
		}
	}
}
