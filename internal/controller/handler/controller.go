// Package handler calls handlers when objects change, and writes their responses.
//
// The package decides which handlers to call, records what each has handled, runs timers and
// daemons, retries, and writes responses. It does not know how a hook is reached or what a
// controller's spec looks like. Package composite has the way from a parent to its children.
//
// The host makes a Controller of every Program; package compile and the SDK make Programs.
package handler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/index"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Controller runs one program.
type Controller struct {
	*controller.Base

	program     Program
	rules       *trigger.Rules
	permissions permit.Set
	eventBuffer eventBuffer
	daemons     sync.WaitGroup
	// daemonCalls limits the concurrent calls to start, update and stop daemons of other processes.
	daemonCalls chan struct{}
	// backend is the process of the handlers; nil if it only serves calls. Calls wait at the
	// gate for what the feed sends; both are nil if there is no such process or index.
	backend *backend.Membership
	gate    *index.Gate
	feed    *index.Feed
	// pruned is set when the API server did not store the state in the status.
	pruned atomic.Bool
}

// maxDaemonCalls is the maximum of concurrent calls of daemons, unless the program has workers.
const maxDaemonCalls = 32

// New returns a controller and starts its watches. Close stops them.
func New(program Program, d controller.Dependencies) *Controller {
	c := &Controller{program: program, permissions: permit.Set{
		Writes: slices.Concat(lists.Map(program.Owns, permit.Owned), program.Writes), Namespaces: program.Namespaces,
	}}
	c.Base = controller.New(c, controller.Options{
		Name: program.Name, Resource: program.Resource, Workers: program.Workers,
		Filtered: program.serverSelector() != "" || program.Fields != "", Owns: program.Owns, NamespacesOf: program.NamespacesOf,
		Account: program.Account,
	}, d)
	c.daemonCalls = make(chan struct{}, cmp.Or(program.Workers, maxDaemonCalls))
	c.recoverConditions()
	c.rules = &c.program.Rules
	c.joinBackend()
	c.watch()
	c.SetWatching()
	return c
}

// Run reconciles objects until the context ends. It returns after the last worker and the last daemon.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.reconcile, func() {
		c.reset()
		c.feed.Begin(ctx) // Nothing closes the gate before it starts.
		c.gate.Reset()
		c.backend.Start()
	}, func() {
		c.eventBuffer.setActive(false)
		c.daemons.Wait()
		c.backend.Stop()
		c.feed.End()
	})
}

// Close closes the watches. Run should have returned.
func (c *Controller) Close() {
	c.backend.Leave()
	c.Base.Close()
}

// RunItem reconciles one object in the caller's goroutine, without workers, after the events of the object
// that no run has seen. It must not run at the same time as Run.
func (c *Controller) RunItem(ctx context.Context, item queue.Item, events []cache.Event) queue.Outcome {
	c.eventBuffer.setActive(true)
	for _, e := range events {
		c.bufferEvent(trigger.NewEvent(e))
	}
	return c.reconcile(ctx, item)
}

// reset drops the state of an earlier leadership, because another replica may have been the
// leader since, and queues every object.
func (c *Controller) reset() {
	c.Memories.Clear()
	c.eventBuffer.setActive(true)
	for o := range c.Managed() {
		c.bufferEvent(trigger.Event{Event: cache.Event{New: o}, Kind: hook.EventListed})
		c.Queue.Add(controller.KeyOf(o), queue.Cause{Kind: queue.Start})
	}
}

// RetryNow retries failed calls and writes at once, because the hook has changed.
func (c *Controller) RetryNow() { c.requeueFailing(queue.HookChanged) }

// RetryWrites retries failed writes at once, because the API server is back. Failed calls keep their backoff.
func (c *Controller) RetryWrites() { c.requeueFailing(queue.Retrying) }

func (c *Controller) requeueFailing(cause queue.CauseKind) {
	for _, key := range c.Memories.Keys(func(result controller.Result) bool { return result.Failing }) {
		c.Queue.Add(key, queue.Cause{Kind: cause})
	}
}

// watch starts the watches: handled objects first, so that owned and related objects find them.
func (c *Controller) watch() {
	for _, selection := range c.program.Selections() {
		c.WatchObjects(selection, c.objectChanged)
	}
	c.WatchOwned(cache.Selection{}, c.ownedChanged)
	c.watchRelated()
}

func (c *Controller) objectChanged(e cache.Event) {
	c.feed.Changed(e) // Before a worker can call a handler for it.
	// An edit is more than a change of the status. For kinds without generations every change counts.
	isEdit := func(e cache.Event) bool {
		return e.Old.IntentDigest() != e.New.IntentDigest() || e.New.Generation() == 0
	}
	if cause := c.CauseOf(e, isEdit); cause != queue.Unspecified {
		if e.Old != nil && e.New != nil && !isSame(e) { // The one before was deleted meanwhile.
			c.bufferEvent(trigger.NewEvent(cache.Event{Old: e.Old}))
			e.Old = nil
		}
		c.bufferEvent(trigger.NewEvent(e))
		c.QueueObject(e, cause)
	}
}

// isSame reports whether an event is a change of one object: a list may show another one of the same name.
func isSame(e cache.Event) bool { return e.Old != nil && e.New != nil && e.Old.UID() == e.New.UID() }

func (c *Controller) ownedChanged(e cache.Event) {
	c.AwaitWatches()
	if !c.rules.Handles(hook.ReasonDrift) || isSame(e) && e.Old.ContentDigest() == e.New.ContentDigest() {
		return // Nothing differs that would be drift.
	}
	for _, o := range []*object.Object{e.Old, e.New} {
		if o != nil {
			c.QueueOwner(o)
		}
	}
}

// Health returns the health of the controller. Handled objects are the parents, objects that they own the children.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	if c.program.Matches != nil {
		h.Parents = c.Memories.Len()
	}
	for key, uid := range c.Memories.UIDs() {
		h.Children += c.CountOwned(uid, key.Namespace)
	}
	if err := c.backend.StreamError(); err != nil {
		h.StreamMessage = failure.OneLine(err)
	}
	if err := c.backend.IndexError(); err != nil && c.gate.Len() > 0 {
		h.IndexMessage = fmt.Sprintf("waiting objects: %d; %s", c.gate.Len(), failure.OneLine(err))
	}
	return h
}

func (c *Controller) joinBackend() {
	p := &c.program.Backend
	if c.Backends == nil || p.Notifications == nil && p.Index == nil {
		return
	}
	c.gate = &index.Gate{
		IsReleased: func(key queue.Key) bool {
			o := c.Get(key)
			return o != nil && c.PhaseOf(o) != controller.PhaseManaged
		},
		IndexesComplete: func() bool { return c.backend.MayCall() }, Add: c.Queue.Add,
	}
	// Others of the process may release the gate from now on.
	c.backend = c.Backends.Join(p.ID, backendController{c}, backend.Member{Name: c.program.Name, Open: p.Notifications,
		Indexed: p.Index != nil})
	if p.Index != nil {
		c.feed = &index.Feed{
			Base: c.Base, Controller: c.program.Object, Selections: c.program.Selections(), Selects: c.rules.Selects,
			Send: p.Index, Backend: c.backend, Gate: c.gate,
		}
	}
}

type backendController struct{ *Controller }

// Connected collects from all daemons, and sends the index again.
func (c backendController) Connected() {
	c.feed.Restart()
	if slices.ContainsFunc(c.program.Handlers, func(h trigger.Handler) bool { return h.Daemon != nil }) {
		c.SyncAll(queue.Cause{Kind: queue.Connected})
	}
}

func (c backendController) Handles(apiVersion, kind string) bool {
	return c.program.Resource.Kind == kind && c.program.Resource.APIVersion() == apiVersion
}

func (c backendController) Notified(n *hook.Notification) {
	key := queue.Key{Namespace: n.Namespace, Name: n.Name}
	if o := c.Get(key); o != nil && (n.UID == "" || n.UID == o.UID()) {
		c.Queue.Add(controller.KeyOf(o), queue.Cause{Kind: queue.Notified})
	}
}

// Publish sends an event for the named object, with the rights of the controller.
func (c backendController) Publish(n *hook.Notification) {
	metadata := map[string]string{"name": n.Name, "namespace": n.Namespace, "uid": n.UID}
	o, err := object.Encode(map[string]any{"apiVersion": n.APIVersion, "kind": n.Kind, "metadata": metadata})
	if err != nil {
		return
	}
	event := n.Event
	if about := c.Get(queue.Key{Namespace: n.Namespace, Name: n.Name}); about != nil {
		values := c.ValuesOf(about, slices.Concat(c.OwnedBy(about)...)...)
		event.Reason, event.Message = values.Text(event.Reason), values.Text(event.Message)
	}
	c.Observer.Event(o, event)
}

func (c backendController) IndexesComplete() { c.gate.QueueWaiting() }

func (c *Controller) watchRelated() {
	for i := range c.program.Related {
		d := &c.program.Related[i]
		if d.Resource.Unserved {
			continue
		}
		for _, namespace := range d.WatchNamespaces() {
			selection := cache.Selection{Resource: d.Resource, Namespace: namespace, Labels: d.Labels, Fields: d.Fields}
			var view *cache.View
			view = c.Watch(selection, func(e cache.Event) {
				c.AwaitWatches() // Until then, view is not set.
				c.relatedChanged(d, view, e)
			})
		}
	}
}

// relatedChanged queues the handled objects of a related one. It skips the initial list, in
// which nothing has changed, and handled objects that are not known: Create is still to come.
func (c *Controller) relatedChanged(d *Related, view *cache.View, e cache.Event) {
	if listed := e.Old == nil && !view.Synced(); listed || isSame(e) && e.Old.Digest() == e.New.Digest() {
		return
	}
	// An object that both map to is queued once: a worker may take it between the first and a second time.
	queued := map[queue.Key]bool{}
	for _, o := range []*object.Object{e.Old, e.New} {
		if o == nil {
			continue
		}
		cause := c.CauseBy(queue.RelatedChanged, o)
		for _, name := range d.Map(o) {
			if key := (queue.Key{Namespace: name.Namespace, Name: name.Name}); c.Get(key) != nil && !queued[key] {
				queued[key] = true
				c.Queue.Add(key, cause)
			}
		}
	}
}

// recoverConditions wraps the conditions of the program and of handlers, so that a panic does not stop the controller.
func (c *Controller) recoverConditions() {
	if matches := c.program.matchFunc(); matches != nil {
		c.program.Matches = func(o *object.Object) bool {
			return c.evaluate(c.Log, o, nil, func() bool { return matches(o) })
		}
	}
	c.program.Handlers = slices.Clone(c.program.Handlers)
	for i := range c.program.Handlers {
		h := &c.program.Handlers[i]
		if when, log := h.When, c.Log.With("handler", h.Name); when != nil {
			h.When = func(old, now *object.Object) bool {
				return c.evaluate(log, now, old, func() bool { return when(old, now) })
			}
		}
	}
}

// evaluate evaluates a condition on an object and its previous state, which may be nil. After a panic or runtime.Goexit it
// logs and returns false.
func (c *Controller) evaluate(log *slog.Logger, o, previous *object.Object, says func() bool) (is bool) {
	err := failure.Recover("a condition", func() error {
		is = says()
		return nil
	})
	if stack, crashed := failure.PanicStack(err); crashed {
		c.ValuesOf(o, previous).Logger(log).Error("condition crashed", "object", o.Ref().String(), "error", failure.OneLine(err),
			"stack", stack)
	}
	return is
}

// PhaseOf returns the phase of an object.
func (c *Controller) PhaseOf(o *object.Object) controller.Phase {
	return controller.PhaseOf(o, c.rules.Selects(o), c.rules.HasFinalizer(o))
}

// Drop drops nothing: the memory has all.
func (c *Controller) Drop(queue.Key) {}

// Describe adds what the controller knows of an object. What waits only for a change that is being sent does not say so.
func (c *Controller) Describe(o *object.Object, state *record.ObjectState) {
	if err := c.backend.IndexError(); err != nil && c.gate.IsHeld(controller.KeyOf(o)) {
		state.Waiting = failure.OneLine(err)
	}
	state.Children = c.CountOwned(o.UID(), o.Namespace())
}

// bufferEvent buffers an event if a handler needs it, or the deletion.
func (c *Controller) bufferEvent(e trigger.Event) {
	end := e.New == nil && c.rules.Handles(hook.ReasonDelete)
	if end || c.rules.Handles(hook.ReasonEvent) {
		c.eventBuffer.add(controller.KeyOf(e.Object()), e)
	}
}

// Unhandled says why no handler is called for an object of the kind; empty if one may be. It does not know what the field
// selector selects.
func (p *Program) Unhandled(o *object.Object) string {
	if len(p.Namespaces) > 0 && o.Namespace() != "" && !slices.Contains(p.Namespaces, o.Namespace()) {
		return "not in a namespace of this controller"
	}
	matches := p.matchFunc()
	return controller.PhaseOf(o, matches == nil || matches(o), p.HasFinalizer(o)).SkipReason()
}

// eventBuffer has the events that were not delivered to handlers yet. They are best effort:
// standby replicas do not collect them.
type eventBuffer struct {
	controller.SharedMap[queue.Key, []trigger.Event]

	active bool
}

func (n *eventBuffer) setActive(active bool) {
	n.Edit(func(byKey map[queue.Key][]trigger.Event) {
		if n.active = active; !active {
			clear(byKey)
		}
	})
}

func (n *eventBuffer) add(key queue.Key, e trigger.Event) {
	n.Edit(func(byKey map[queue.Key][]trigger.Event) {
		if n.active {
			byKey[key] = trigger.AppendEvent(byKey[key], e)
		}
	})
}
