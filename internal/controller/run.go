package controller

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Run is one reconcile of one object.
type Run struct {
	Item queue.Item
	// Record is the record of the run; nil in a dry run.
	Record *record.Record
	Phase  Phase
	// Stored is the object as it is stored, as far as known.
	Stored *object.Object
	// Secrets are the values of Secrets that the run has seen. Its errors, events, conditions and log pass them.
	Secrets *redact.Values
	// Log has the trace, if there is one, and no values of Secrets.
	Log *slog.Logger

	// Remembered is the memory of the object, and Fresh means that it is empty; nil outside of the object's worker.
	Remembered Remembered
	Fresh      bool

	base  *Base
	trace trace.Reconcile
	// reconcileAt is the time of the manual reconcile request that the object has at the beginning.
	reconcileAt time.Time
}

// NewRun returns a run without a record, which sends and logs nothing.
func (b *Base) NewRun(item queue.Item, o *object.Object) *Run {
	memory, fresh := b.Memories.Get(item.Key, o.UID())
	return &Run{
		Item: item, Stored: o, Phase: b.loop.PhaseOf(o), Secrets: b.ValuesOf(o), Log: slog.New(slog.DiscardHandler),
		Remembered: memory, Fresh: fresh, base: b, reconcileAt: plan.ReconcileRequestOn(o).At,
	}
}

// common is what the memories of all loops have; nil outside of the object's worker.
func (r *Run) common() *Memory {
	if r.Remembered == nil {
		return nil
	}
	return r.Remembered.common()
}

// ValuesOf returns the values of the Secrets in an object, or in states of it.
func (b *Base) ValuesOf(o *object.Object, formerly ...*object.Object) *redact.Values {
	values := redact.New(nil, o.Namespace(), o.Name())
	SeeObjects(values, formerly, []*object.Object{o})
	return values
}

// SeeObjects adds the values of the Secrets in objects, of which some may be nil.
func SeeObjects(values *redact.Values, lists ...[]*object.Object) {
	values.See(false, func(visit func(json.RawMessage)) {
		for _, o := range slices.Concat(lists...) {
			if o != nil {
				visit(o.JSON())
			}
		}
	})
}

// See adds the values of the Secrets in a request, and in its response.
func (r *Run) See(request *record.Request, response *record.Response) {
	record.See(r.Secrets, r.base.options.Resource.GroupKind(), request, response)
}

// WithOutput returns a context for a call of user code, and what that prints, if it is recorded.
func (r *Run) WithOutput(ctx context.Context) (context.Context, *call.Output) {
	if !r.Record.Detailed() {
		return ctx, nil
	}
	return call.WithOutput(ctx)
}

// NewDetachedRun returns a run outside of the object's worker. Its record names the trigger.
func (b *Base) NewDetachedRun(ctx context.Context, o *object.Object, trigger string) (context.Context, *Run) {
	values := b.ValuesOf(o)
	run := &Run{Item: queue.Item{Key: KeyOf(o)}, Stored: o, Secrets: values, Log: values.Logger(b.Log), base: b}
	ctx = run.startTrace(ctx, trigger, 0)
	run.Record = b.newRecord(o, record.Run{Trigger: trigger, TraceID: run.trace.ID()})
	return ctx, run
}

// Reconcile reconciles the object of an item, unless it is gone or ignored.
func (b *Base) Reconcile(ctx context.Context, item queue.Item,
	do func(context.Context, *Run) (record.Outcome, queue.Outcome)) queue.Outcome {
	o := b.Get(item.Key)
	if o == nil || b.loop.PhaseOf(o) == PhaseIgnored {
		b.drop(item.Key)
		return queue.NoRequeue()
	}
	run := b.NewRun(item, o)
	run.Log = run.Secrets.Logger(b.Log)
	ctx = run.startTrace(ctx, "", run.common().Attempts)
	run.Record = b.newRecord(o, record.Run{
		Queued: item.Causes, Attempt: run.common().Attempts,
		Began: b.Now(), QueuedFor: b.waited(item), TraceID: run.trace.ID(),
	})
	if paused := run.Phase == PhasePaused; b.Memories.SetPaused(run.common(), paused) {
		run.reportPause(paused)
	}
	outcome, requeue := do(ctx, run)
	if b.loop.PhaseOf(run.Stored) == PhaseIgnored {
		b.drop(item.Key)
	}
	ran := run.finished(outcome)
	if run.Record.Detailed() && !ran.IsNoop() {
		ran.Next = b.Queue.Pending(item.Key).Next
		if delay := requeue.Delay(); delay > 0 { // It comes before anything else that is queued.
			ran.Next = b.Now().Add(delay)
		}
	}
	b.Observer.Ran(ran)
	return requeue
}

func (b *Base) drop(key queue.Key) {
	b.Memories.Drop(key)
	b.loop.Drop(key)
}

func (b *Base) newRecord(o *object.Object, run record.Run) *record.Record {
	run.Controller, run.Object = b.options.Name, b.options.Resource.Ref(o.Namespace(), o.Name())
	run.Object.UID = o.UID()
	if b.Unrecorded {
		return record.NewSummary(run, b.Now)
	}
	return record.New(run, b.Now)
}

// finished ends the span of the run. It returns the record, with the values that its texts may have.
func (r *Run) finished(outcome record.Outcome) record.Run {
	if r.trace.On() {
		r.trace.EndRun(outcome, outcome == record.Failed, r.Record.Error())
	}
	ran := r.Record.Finish(outcome)
	ran.Secrets = r.Secrets
	return ran
}

// FinishDetached ends work outside of the object's worker, such as a write of a daemon.
func (r *Run) FinishDetached(ctx context.Context, err error) {
	err = r.Secrets.Error(err)
	outcome := record.Synced
	switch {
	case err != nil && ctx.Err() != nil:
		// The work was interrupted, which is no failure.
		outcome = record.Postponed
	case err != nil:
		r.Record.Failed(err)
		outcome = record.Failed
	case r.Record.Steps() == 0:
		outcome = record.Skipped
	}
	r.base.Observer.Ran(r.finished(outcome))
}

// IsDry reports whether this is a dry run: it sends no events, and its object need not be stored.
func (r *Run) IsDry() bool { return r.Record == nil }

// CheckReads returns an error unless the ServiceAccount may read the object and the owned kinds: the caches have what
// Setpoint itself may read. It does not depend on the objects that exist, so that others cannot make a run fail by an
// object of theirs.
func (r *Run) CheckReads(ctx context.Context) error {
	b, namespace := r.base, r.Stored.Namespace()
	user := b.UserFor(namespace)
	if err := b.Access.CheckRead(ctx, user, b.options.Resource, namespace, r.Stored.Name()); err != nil {
		return err
	}
	for _, owned := range b.options.Owns {
		if owned.Unserved {
			continue
		}
		namespaces := []string{namespace}
		if !b.options.Resource.Namespaced {
			namespaces = b.options.NamespacesOf(owned)
		}
		if err := b.Access.CheckList(ctx, user, owned, namespaces...); err != nil {
			return err
		}
	}
	return nil
}

// StillExists reports whether the object is still in the cache, and the same one.
func (r *Run) StillExists() bool {
	if r.IsDry() {
		return true
	}
	now := r.base.Get(r.Item.Key)
	return now != nil && now.UID() == r.Stored.UID()
}

// ObserveWrite puts the result of an own write into the caches at once. Dry runs share the caches with live ones.
func (r *Run) ObserveWrite(resource object.Resource, stored *object.Object) {
	for _, view := range r.viewsOf(resource, stored) {
		view.ObserveWrite(stored)
	}
}

// ObserveDelete is ObserveWrite for an object that is gone.
func (r *Run) ObserveDelete(resource object.Resource, deleted *object.Object) {
	for _, view := range r.viewsOf(resource, deleted) {
		view.ObserveDelete(deleted)
	}
}

// ObserveResult is ObserveWrite, or ObserveDelete if nothing is stored of an object.
func (r *Run) ObserveResult(resource object.Resource, o, stored *object.Object) {
	if stored == nil {
		r.ObserveDelete(resource, o)
		return
	}
	r.ObserveWrite(resource, stored)
}

// viewsOf returns the views through which the run sees an object that it has written. Another object of the kind of
// its own is reconciled too: the view of reconciled objects has to be told of the write, as of those of others.
func (r *Run) viewsOf(resource object.Resource, written *object.Object) (all []*cache.View) {
	if r.IsDry() {
		return nil
	}
	own := written.UID() == r.Stored.UID()
	for _, w := range r.base.watches {
		if w.Covers(resource, written) && own == slices.Contains(r.base.objects, w.View) {
			all = append(all, w.View)
		}
	}
	return all
}

// Types of events.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Reasons of events of both loops, on parents and on handled objects.
const (
	// ReasonWriteFailed: the API server refused a write; the message is the server's. Setpoint retries. What to do:
	// mend what the message says, such as a permission, a quota or a field.
	ReasonWriteFailed = "WriteFailed"
	// ReasonStatusPruned: the API server did not store a field of the status, because the schema of the kind does not
	// have it. Setpoint writes it again every ten minutes and when a user requests a reconcile. What to do: add the
	// field to the schema, or remove it from the response.
	ReasonStatusPruned = "StatusPruned"
	// ReasonInternalError: Setpoint has a defect; the log has the stack. What to do: report it, with the stack.
	ReasonInternalError = "InternalError"
	// ReasonPaused: the annotation setpoint.dev/paused stops the controller for this object. What to do: to resume,
	// remove the annotation.
	ReasonPaused = "Paused"
	// ReasonResumed: the controller continues after a pause. What to do: nothing.
	ReasonResumed = "Resumed"
	// ReasonFinalizing: the object has been in deletion for more than ten seconds; the message says what it waits for.
	// What to do: see what holds that up; `setpoint release` is the last way out.
	ReasonFinalizing = "Finalizing"
	// ReasonRequested: a user requested the reconcile by setpoint.dev/reconcile-at. What to do: nothing.
	ReasonRequested = "ReconcileRequested"
)

const (
	// EventInterval is the minimum time between two events about the same failure. With the maximum backoff and the
	// default timeout of hooks, a failing object sends an event at least once a minute.
	EventInterval = 15 * time.Second
	// ConflictDelay is the delay after a conflict. The cache has seen the change by then.
	ConflictDelay = 100 * time.Millisecond
	// MaxConflicts is how many conflicts in a row are not yet a failure.
	MaxConflicts = 20
)

// ErrConflict ends a run that met an object which another client had changed. The run is
// repeated with the object as it is then.
var ErrConflict = errors.New("an object changed meanwhile")

// ErrTooManyConflicts means that ErrConflict lasted too long.
var ErrTooManyConflicts = errors.New("too many conflicts in a row")

// ReasonOf is the reason of the event about an error.
func ReasonOf(err error) string { return failure.Reason(err, ReasonWriteFailed) }

// EventOf is the event about an error.
func EventOf(err error) hook.Event {
	return hook.Event{Type: Warning, Reason: ReasonOf(err), Message: failure.OneLine(err)}
}

// SendEvent sends an event about the object.
func (r *Run) SendEvent(event hook.Event) {
	if r.IsDry() {
		return
	}
	event.Reason, event.Message = r.Secrets.Text(event.Reason), r.Secrets.Text(event.Message)
	r.base.Observer.Event(r.Stored, event)
	r.Record.EventSent(event)
}

// SendEvents sends the events of a response.
func (r *Run) SendEvents(events []hook.Event) {
	for _, event := range events {
		r.SendEvent(event)
	}
}

// finalizingAfter is how long an object may be in deletion before an event says what it waits for.
const finalizingAfter = 10 * time.Second

// ReportWaiting sends an event about what the deletion of the object waits for, unless it has just begun: then it
// queues the object for the time when it has not.
func (r *Run) ReportWaiting(what string) {
	if r.IsDry() || !r.Stored.Deleting() {
		return
	}
	if left := finalizingAfter - r.base.Since(r.Stored.Time("deletionTimestamp")); left > 0 {
		r.base.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.StatusChanged}, left+time.Second)
		return
	}
	r.SendOnce(hook.Event{Type: Normal, Reason: ReasonFinalizing, Message: "the deletion " + what})
}

// SendOnce sends an event, unless the latest one of its reason said the same.
func (r *Run) SendOnce(event hook.Event) {
	memory := r.common()
	if memory == nil || r.IsDry() || memory.said[event.Reason] == event.Message {
		return
	}
	if memory.said == nil {
		memory.said = map[string]string{}
	}
	memory.said[event.Reason] = event.Message
	r.SendEvent(event)
}

// ReportFailure logs a failure and sends an event, unless the latest one said the same: within EventInterval, or ever
// if it is to be said once.
func (r *Run) ReportFailure(err error, event hook.Event, once bool) {
	b, message := r.base, failure.OneLine(err)
	log := r.Log.With("object", r.Stored.Ref().String(), "attempt", r.common().Attempts+1, "error", message)
	last := &r.common().reported
	if last.message == message && (once || b.Since(last.at) < EventInterval) {
		log.Debug("reconcile failed again")
		return
	}
	log.Warn("reconcile failed")
	if errors.Is(err, identity.ErrForbidden) {
		b.Observer.OwnEvent(r.Stored, event)
		r.Record.EventSent(event)
	} else {
		r.SendEvent(event)
	}
	last.message, last.at = message, b.Now()
}

func (r *Run) reportPause(paused bool) {
	reason, what := ReasonResumed, "resumed"
	if paused {
		reason, what = ReasonPaused, "paused while the annotation "+setpoint.AnnotationPaused+` is "true"`
	}
	r.SendEvent(hook.Event{Type: Normal, Reason: reason, Message: "Reconciliation by " + r.base.options.Name + " " + what})
}

// ReportManualReconcile sends an event when a user has requested the reconcile.
func (r *Run) ReportManualReconcile() {
	if r.Item.Causes.Has(queue.ReconcileRequested) {
		r.SendEvent(hook.Event{Type: Normal, Reason: ReasonRequested, Message: "Reconciled by " + r.base.options.Name + " on request"})
	}
}

// PrunedRetry is how long a field of the status waits that the API server did not store: nothing tells when the schema
// of the kind has it.
const PrunedRetry = 10 * time.Minute

// ReportPruned sends an event, once, about a field of the status that the API server did not store; "" for none.
func (r *Run) ReportPruned(field string) {
	if field == "" {
		return
	}
	r.SendOnce(hook.Event{
		Type: Warning, Reason: ReasonStatusPruned,
		Message: "status." + field + " was not stored: the schema of " + r.Stored.Kind() +
			" does not have the field; add it to the CustomResourceDefinition, or do not return it",
	})
}

// CallUserCode calls a function of the user. A panic or runtime.Goexit becomes an error, and the log
// has its stack. Neither has the values.
func (b *Base) CallUserCode(what string, source failure.Source, attrs []any, values *redact.Values, do func() error) error {
	err := values.Error(failure.Recover(what, do))
	if stack, crashed := failure.PanicStack(err); crashed {
		b.Log.With(attrs...).Error("user code crashed", "error", failure.OneLine(err), "stack", values.Text(stack))
	}
	return failure.WithSource(source, err)
}

// Sleep waits, and returns false if the context ended.
func Sleep(ctx context.Context, delay time.Duration) bool {
	select {
	case <-time.After(delay):
		return true
	case <-ctx.Done():
		return false
	}
}

// Recover calls step and returns its panic as an error: a defect met by one object must not
// stop the others. Errors have no values of Secrets.
func (r *Run) Recover(step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error("run panicked", "object", r.Item.Key.String(), "panic", p, "stack", string(debug.Stack()))
			err = failure.WithReason(ReasonInternalError, failure.FromPanic("internal error in Setpoint", p))
		}
		err = r.Secrets.Error(err)
	}()
	return step()
}

// startTrace starts the span of the run. Without traces it returns the context. The trigger is that of a run that was
// not queued.
func (r *Run) startTrace(ctx context.Context, trigger string, attempt int) context.Context {
	b := r.base
	if b.Tracer == nil {
		return ctx
	}
	causes := []trace.Cause{{Text: trigger}}
	if trigger == "" {
		causes = lists.Map(r.Item.Causes.List(), r.tracedCause)
	}
	ctx, r.trace = b.Tracer.StartRun(ctx, &trace.Run{
		Controller: b.options.Name, APIVersion: b.options.Resource.APIVersion(), Object: tracedObject(r.Stored),
		UID:    strings.Clone(r.Stored.UID()), // It outlives the object, which it would keep.
		Causes: causes, More: r.Item.Causes.More(), Attempt: attempt, Waited: b.waited(r.Item),
		Annotation: plan.Annotation(r.Stored, trace.Annotation), Secrets: r.Secrets,
	})
	r.Log = r.Log.With(r.trace.LogAttrs()...)
	return ctx
}

func (r *Run) tracedCause(cause queue.Cause) trace.Cause {
	about := tracedObject(r.Stored)
	if cause.Object != (queue.Key{}) {
		about = trace.Object{Kind: cause.Detail, Namespace: cause.Object.Namespace, Name: cause.Object.Name}
	}
	return trace.Cause{Text: cause.String(), Object: about, Version: cause.Version}
}

func tracedObject(o *object.Object) trace.Object {
	return trace.Object{Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()}
}
