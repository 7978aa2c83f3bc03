package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// run is one reconcile of one object.
type run struct {
	*Controller
	*controller.Run

	memory *memory
	// pass decides what to do; nil if detached.
	pass *trigger.Pass
	// object writes the object itself, dependents what it owns.
	object     *objectWriter
	dependents *dependents
	// writer reads from the API server and writes to it.
	writer writer
	// calls counts the calls.
	calls int
	// failure is the error of the run as a whole, handlerFailing means that a handler failed.
	failure        error
	handlerFailing bool
	// dry is nil unless this is a dry run.
	dry *dryRun
	// conflicted means that an object changed during the run.
	conflicted bool
}

// reconcile runs the steps for one object. Each handler fails and retries separately.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	if c.gate.Holds(item) {
		return queue.NoRequeue()
	}
	events := c.eventBuffer.take(item.Key)
	c.handleDeletions(ctx, events)
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run, remembered controller.Remembered,
		fresh bool) (record.Outcome, queue.Outcome) {
		r := c.newRun(of, remembered, fresh)
		r.observe()
		r.pass.TakeEvents(events)
		r.fail(r.releaseAbandoned(ctx, r.Recover(func() error { return r.reconcileObject(ctx) })))
		return r.finish(ctx), queue.NoRequeue()
	})
}

// reconcileObject calls the pending handlers and writes their responses.
func (r *run) reconcileObject(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if !r.IsDry() {
		r.syncDaemons(ctx)
	}
	if r.Phase == controller.PhasePaused {
		return nil
	}
	if r.Phase == controller.PhaseManaged {
		r.pass.Decide()
	}
	err := r.callHandlers(ctx)
	if errors.Is(err, errGone) || ctx.Err() != nil {
		err = nil
	}
	return err
}

// prepare takes the steps before the calls.
func (r *run) prepare(ctx context.Context) error {
	if err := r.checkReads(ctx); err != nil {
		return err
	}
	switch asked, err := r.dependents.findApplied(ctx); {
	case err != nil:
		return err
	case asked:
		r.pass.OwnedDigest = r.pass.Digests.Owned(r.dependents.appliedNow())
	}
	if err := r.matchHandlers(ctx); err != nil {
		return err
	}
	if err := r.setFinalizer(ctx); err != nil {
		return err
	}
	return r.previousStates().load(ctx)
}

// previousStates keeps what the handlers of the object have handled.
func (r *run) previousStates() *previousStates {
	return &previousStates{Controller: r.Controller, Run: r.Run, pass: r.pass, writer: r.writer, history: &r.memory.revisions}
}

// PhaseOf returns the phase of an object.
func (c *Controller) PhaseOf(o *object.Object) controller.Phase {
	return controller.PhaseOf(o, c.rules.Selects(o), c.rules.HasFinalizer(o))
}

// matchFunc returns the program's condition, including the labels that the API server does not
// filter by; see serverSelector.
func (p *Program) matchFunc() func(*object.Object) bool {
	selector, err := labels.Parse(p.Labels)
	if err != nil || p.Labels == "" {
		// The API server reports an invalid selector.
		return p.Matches
	}
	others := p.Matches
	return func(o *object.Object) bool { return selector.Matches(o.Labels()) && (others == nil || others(o)) }
}

// serverSelector returns the label selector for the API server. It is empty if Setpoint must
// see objects that stop matching, to release them.
func (p *Program) serverSelector() string {
	if slices.ContainsFunc(p.Handlers, func(h trigger.Handler) bool { return h.NeedsFinalizer() }) {
		return ""
	}
	return p.Labels
}

// request returns the request of a call, without copying an object.
func (r *run) request(c trigger.Call) *hook.HandlerRequest {
	n := r.newRequest(c.Handler.Handler, c.Object)
	n.Since = c.Handler.WatchedSince
	n.Reason, n.DryRun, n.Event = c.Reason, r.IsDry(), c.Event.Kind
	if n.Attempt = c.Attempt; n.Attempt > 0 {
		n.FirstAttempt = c.FirstAttempt
	}
	if e := c.Handler.Entry(); e.HasProgress(c.Reason) {
		n.Progress = json.RawMessage(e.Progress)
	}
	n.Owned = r.program.ownedGroups(r.dependents.byKind)
	if c.Previous != nil {
		n.PreviousState = c.Previous.JSON()
		n.Changes = c.Handler.Changes(c.Previous, cmp.Or(c.Event.New, c.Object))
	}
	return n
}

// newRequest returns a request with only the object. Who makes the call adds the Reader.
func (c *Controller) newRequest(h *trigger.Handler, o *object.Object) *hook.HandlerRequest {
	return &hook.HandlerRequest{
		Controller: c.program.Object, Handler: h.Name, Object: o.JSON(), Namespace: o.Namespace(), Name: o.Name(),
	}
}

// ownedGroups returns the owned objects in one group for each kind.
func (p *Program) ownedGroups(owned [][]*object.Object) []hook.Group {
	groups := make([]hook.Group, len(p.Owns))
	for i, resource := range p.Owns {
		group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind}
		if i < len(owned) {
			for _, o := range owned[i] {
				group.Objects = append(group.Objects, hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()})
			}
		}
		groups[i] = group
	}
	return groups
}

// reader lists objects for handlers, limited to what the program declares.
type reader struct {
	controller *Controller
	// namespace is that of the handled object.
	namespace string
	// values are those of the Secrets that the caller knows, and that were read.
	values *redact.Values
}

// List calls the API server: rare reads are not worth a watch.
func (r reader) List(ctx context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
	group := hook.Group{APIVersion: apiVersion, Kind: kind}
	p := &r.controller.program
	if limits := p.Namespaces; p.Resource.Namespaced && len(limits) > 0 && !slices.Contains(limits, namespace) {
		return group, &hook.TerminalError{Err: fmt.Errorf("may not list %s in the namespace %q: the controller is limited to %v",
			kind, namespace, limits)}
	}
	for _, resource := range p.Reads {
		if !permit.MatchesKind(resource, apiVersion, kind) {
			continue
		}
		if resource.Unserved {
			return group, nil
		}
		found, err := r.controller.writerFor(r.namespace).List(ctx, resource, namespace, selector)
		if err != nil {
			return group, fmt.Errorf("list %s: %w", resource, err)
		}
		for _, o := range found {
			group.Objects = append(group.Objects, hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()})
		}
		r.values.See(false, func(visit func(json.RawMessage)) {
			for _, o := range found {
				visit(o.JSON())
			}
		})
		r.values.Found() // It reads them: a daemon lists as long as it runs.
		return group, nil
	}
	return group, permit.Undeclared("list", false, apiVersion, kind)
}

// recoverConditions wraps the conditions of the program and of handlers, so that a panic does
// not stop the controller.
func (c *Controller) recoverConditions() {
	c.program.Matches = c.program.matchFunc()
	if matches := c.program.Matches; matches != nil {
		c.program.Matches = func(o *object.Object) bool {
			return c.evaluate(c.Log, o, nil, func() bool { return matches(o) })
		}
	}
	c.program.Handlers = slices.Clone(c.program.Handlers)
	for i := range c.program.Handlers {
		h := &c.program.Handlers[i]
		when, log := h.When, c.Log.With("handler", h.Name)
		if when == nil {
			continue
		}
		h.When = func(old, now *object.Object) bool {
			return c.evaluate(log, now, old, func() bool { return when(old, now) })
		}
	}
}

// evaluate evaluates a condition on an object and its former state, which may be nil. After a panic or runtime.Goexit it logs and
// returns false.
func (c *Controller) evaluate(log *slog.Logger, o, former *object.Object, says func() bool) (is bool) {
	err := failure.Recover("a condition", func() error {
		is = says()
		return nil
	})
	if stack, crashed := failure.PanicStack(err); crashed {
		c.ValuesOf(o, former).Logger(log).Error("condition crashed", "object", o.Ref().String(), "error", failure.OneLine(err), "stack",
			stack)
	}
	return is
}

// Related are objects whose changes call the handlers with hook.ReasonRelated.
type Related struct {
	Resource object.Resource
	// Namespaces limit the objects; empty for all. Labels and Fields are selectors that the
	// API server applies.
	Namespaces     []string
	Labels, Fields string
	// Map returns the handled objects of a related one. It is called for each change, for the
	// object before and after it, and must be fast.
	Map func(*object.Object) []types.NamespacedName
}

// WatchNamespaces returns the namespaces of the watches, "" for all.
func (d *Related) WatchNamespaces() []string {
	if len(d.Namespaces) == 0 || !d.Resource.Namespaced {
		return []string{""}
	}
	return d.Namespaces
}

// watchRelated starts the watches of related objects.
func (c *Controller) watchRelated() {
	for i := range c.program.Related {
		d := &c.program.Related[i]
		if d.Resource.Unserved {
			continue
		}
		for _, namespace := range d.WatchNamespaces() {
			selection := cache.Selection{Resource: d.Resource, Namespace: namespace, Labels: d.Labels, Fields: d.Fields}
			var view *cache.View
			view = c.tools.Store.Watch(selection, func(e cache.Event) {
				c.AwaitWatches() // Until then, view is not set.
				c.relatedChanged(d, view, e)
			})
			c.AddWatch(selection, view)
		}
	}
}

// relatedChanged queues the handled objects of a related one. It skips the initial list, in
// which nothing has changed, and handled objects that are not known: Create is still to come.
func (c *Controller) relatedChanged(d *Related, view *cache.View, e cache.Event) {
	listed := e.Old == nil && !view.Synced()
	if listed || e.Old != nil && e.New != nil && e.Old.UID() == e.New.UID() && e.Old.Digest() == e.New.Digest() {
		return
	}
	// An object that both map to is queued once: a worker may take it between the first and a second time.
	queued := map[queue.Key]bool{}
	for _, o := range []*object.Object{e.Old, e.New} {
		if o == nil {
			continue
		}
		cause := c.RelatedCause(o)
		for _, name := range d.Map(o) {
			key := queue.Key{Namespace: name.Namespace, Name: name.Name}
			if c.Get(key) != nil && !queued[key] {
				queued[key] = true
				c.Queue.Add(key, cause)
			}
		}
	}
}
