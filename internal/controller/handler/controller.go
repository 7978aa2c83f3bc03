package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller/handler/daemon"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/index"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Controller runs one program.
type Controller struct {
	*controller.Base

	program Program
	// rules are what passes decide by.
	rules *trigger.Rules
	// permissions are for what responses write.
	permissions permit.Set
	tools       Tools
	eventBuffer *eventBuffer
	// owned are the watches of owned objects.
	owned   []controller.Watch
	daemons sync.WaitGroup
	// daemonHost is what daemons need of the controller.
	daemonHost *daemon.Host
	// backend is the process of the handlers; nil if it only serves calls. Calls wait at the
	// gate for what the feed sends; both are nil if there is no such process or index.
	backend *backend.Membership
	gate    *index.Gate
	feed    *index.Feed
	// pruned is set when the API server did not store the state in the status.
	pruned atomic.Bool
}

// New returns a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	if tools.Now == nil {
		tools.Now = time.Now
	}
	if tools.Queue.Random == nil {
		tools.Queue.Random = rand.Float64
	}
	c := &Controller{program: program, tools: tools, eventBuffer: newEventBuffer()}
	c.Base = controller.New(c, controller.Options{
		Name: program.Name, Resource: program.Resource, Workers: program.Workers, Queue: tools.Queue,
		Filtered: program.serverSelector() != "" || program.Fields != "", Observer: tools.Observer, Unrecorded: tools.Unrecorded,
		Log: tools.Log, Tracer: tools.Tracer, Now: tools.Now,
	})
	c.daemonHost = newDaemonHost(c)
	c.recoverConditions()
	c.rules = c.program.rules()
	c.permissions = permit.Set{Owns: program.Owns, Writes: program.Writes, Namespaces: program.Namespaces}
	c.joinBackend()
	c.watch()
	c.SetWatching()
	return c
}

// maxDaemonCalls is the maximum of concurrent calls of daemons, unless the program has workers.
const maxDaemonCalls = 32

// Run reconciles objects until the context ends. It returns after the last worker and the last
// daemon.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.reconcile, func() {
		c.reset()
		c.gate.Reset()
		c.feed.Begin(ctx)
		c.backend.Start()
	}, func() {
		c.eventBuffer.pause()
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
	c.eventBuffer.resume()
	for _, e := range events {
		c.bufferEvent(trigger.NewEvent(e))
	}
	return c.reconcile(ctx, item)
}

// reset drops the state of an earlier leadership, because another replica may have been the
// leader since, and queues every object.
func (c *Controller) reset() {
	c.Memories.Clear()
	c.eventBuffer.resume()
	for o := range c.Managed() {
		c.bufferEvent(trigger.Event{Event: cache.Event{New: o}, Kind: hook.EventListed})
		c.Queue.Add(controller.KeyOf(o), queue.Cause{Kind: queue.Start})
	}
}

// RetryNow retries failed calls and writes at once, because the hook has changed.
func (c *Controller) RetryNow() { c.requeueFailing(queue.HookChanged) }

// RetryWrites retries failed writes at once, because the API server is back. Failed calls keep
// their backoff.
func (c *Controller) RetryWrites() { c.requeueFailing(queue.Retrying) }

func (c *Controller) requeueFailing(cause queue.CauseKind) {
	for _, key := range c.Memories.Keys(func(result controller.Result) bool { return result.Failing }) {
		c.Queue.Add(key, queue.Cause{Kind: cause})
	}
}

// ownedBy returns the owned objects that an object controls, one list for each kind.
func (c *Controller) ownedBy(o *object.Object) [][]*object.Object {
	all := make([][]*object.Object, len(c.program.Owns))
	for _, w := range c.owned {
		i := slices.Index(c.program.Owns, w.Resource)
		all[i] = append(all[i], w.View.Owned(o)...)
	}
	return all
}

// countOwned returns the number of objects that a UID in a namespace owns.
func (c *Controller) countOwned(uid, namespace string) int {
	n := 0
	for _, w := range c.owned {
		n += w.View.CountOwned(uid, namespace)
	}
	return n
}

// newRun is the first step: it loads the memory of the object. For a fresh one, the record on
// the object decides what to resume.
func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered, fresh bool) *run {
	r := c.newDetached(of)
	r.memory = remembered.(*memory)
	r.pass = trigger.NewPass(trigger.Observation{
		Rules: c.rules, Object: r.Stored, Causes: of.Item.Causes, Managed: r.Phase == controller.PhaseManaged, Dry: r.IsDry(),
		Now: c.tools.Now, Random: c.tools.Queue.Random, Fail: r.recordError,
	}, &r.memory.States)
	r.object.pass, r.object.memory = r.pass, r.memory
	r.dependents.remembered, r.dependents.reapplies = &r.memory.applied, r.pass.RetriesWrites()
	if fresh {
		r.dependents.restoreApplied(r.pass.Recorded)
		r.memory.daemons = newDaemons(r.memory.Handlers)
	}
	return r
}

// newDetached returns a run outside of the worker of the object, which has no memory.
func (c *Controller) newDetached(of *controller.Run) *run {
	w, owned := c.writerFor(of.Stored.Namespace()), &dependents{Controller: c, Run: of}
	owned.writer = w
	return &run{
		Controller: c, Run: of, writer: w, dependents: owned, object: &objectWriter{Controller: c, Run: of, writer: w, dependents: owned},
	}
}

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	defer r.seeCached()
	r.object.stale = false
	r.dependents.observe()
	digest := ""
	if r.rules.Handles(hook.ReasonDrift) {
		digest = r.pass.Digests.Owned(r.dependents.appliedNow())
	}
	if r.pass.Observe(r.Stored, digest) {
		r.memory.noteStateRemoval(r.tools.Now(), r.tools.Queue.Random)
		r.Log.Info("another client removed the handled state; writing it again", "object", r.Stored.Ref().String())
	}
}

// seeCached adds the values of the Secrets that a write may quote before the first call: those of the objects, and of
// responses of earlier runs.
func (r *run) seeCached() {
	stored, owned := r.Stored, r.dependents.byKind
	r.Secrets.See(false, func(visit func(json.RawMessage)) {
		visit(stored.JSON())
		for _, o := range slices.Concat(owned...) {
			visit(o.JSON())
		}
	})
	for _, o := range r.memory.Responses {
		if !o.Fresh {
			r.See(&record.Request{}, &record.Response{Handler: o.Response})
		}
	}
}

// watch starts the watches: handled objects first, so that owned and related objects find them.
func (c *Controller) watch() {
	for _, selection := range c.program.Selections() {
		c.AddObjects(selection, c.tools.Store.Watch(selection, c.objectChanged))
	}
	for _, resource := range c.program.Owns {
		if resource.Unserved {
			continue
		}
		for _, namespace := range c.program.NamespacesOf(resource) {
			selection := cache.Selection{Resource: resource, Namespace: namespace}
			view := c.tools.Store.Watch(selection, c.ownedChanged)
			c.AddWatch(selection, view)
			c.owned = append(c.owned, controller.Watch{Resource: resource, Namespace: namespace, View: view})
		}
	}
	c.watchRelated()
}

// Selections returns the watches of the handled kind. Controllers with equal selections share
// a watch.
func (p *Program) Selections() []cache.Selection {
	var all []cache.Selection
	for _, namespace := range p.NamespacesOf(p.Resource) {
		all = append(all, cache.Selection{Resource: p.Resource, Namespace: namespace, Labels: p.serverSelector(), Fields: p.Fields})
	}
	return all
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for
// all.
func (p *Program) NamespacesOf(resource object.Resource) []string {
	if len(p.Namespaces) == 0 || !resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}

// objectChanged queues an object that another client created, changed or deleted.
func (c *Controller) objectChanged(e cache.Event) {
	c.feed.Changed(e) // Before a worker can call a handler for it.
	if cause := c.CauseOf(e, isEdit); cause != queue.Unspecified {
		if e.Old != nil && e.New != nil && e.Old.UID() != e.New.UID() {
			// A list shows another object of the same name: the former was deleted meanwhile.
			c.bufferEvent(trigger.NewEvent(cache.Event{Old: e.Old}))
			e.Old = nil
		}
		c.bufferEvent(trigger.NewEvent(e))
		c.QueueObject(e, cause)
	}
}

// isEdit reports whether more than the status changed. For kinds without generations every
// change counts.
func isEdit(e cache.Event) bool {
	return e.Old.IntentDigest() != e.New.IntentDigest() || e.New.Generation() == 0 || e.Old.Deleting() != e.New.Deleting()
}

// ownedChanged queues the present or former owner of an owned object, if a handler needs the
// change.
func (c *Controller) ownedChanged(e cache.Event) {
	c.AwaitWatches()
	if !c.rules.Handles(hook.ReasonDrift) {
		return
	}
	if e.Old != nil && e.New != nil && unchanged(e.Old, e.New) {
		return
	}
	for _, o := range []*object.Object{e.Old, e.New} {
		if o != nil {
			c.QueueOwner(o)
		}
	}
}

// unchanged reports whether nothing differs that would be drift. If the server counts
// generations, that leaves out changes of the status.
func unchanged(old, now *object.Object) bool {
	if old.UID() != now.UID() || now.Generation() == 0 {
		return old.Digest() == now.Digest()
	}
	return old.IntentDigest() == now.IntentDigest()
}

// Health returns the health of the controller. Handled objects are the parents, objects that
// they own the children.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	if c.program.Matches != nil {
		h.Parents = c.Memories.Len()
	}
	for key, uid := range c.Memories.UIDs() {
		h.Children += c.countOwned(uid, key.Namespace)
	}
	if err := c.backend.StreamError(); err != nil {
		h.StreamMessage = failure.OneLine(err)
	}
	if err := c.backend.IndexError(); err != nil && c.gate.Len() > 0 {
		h.IndexMessage = fmt.Sprintf("waiting objects: %d; %s", c.gate.Len(), failure.OneLine(err))
	}
	return h
}

// Backend is what the process of the handlers does besides serving their calls.
type Backend struct {
	// ID is the same for all programs with handlers in the process.
	ID string
	// Notifications opens the stream of notifications; nil if there is none.
	Notifications backend.Opener
	// Index sends objects to the index of the process; nil if it has none of this program.
	Index func(context.Context, *hook.IndexRequest) error
}

// joinBackend makes the controller a member of the process of its handlers, if that does more
// than serve calls.
func (c *Controller) joinBackend() {
	p := &c.program.Backend
	if c.tools.Backends == nil || p.Notifications == nil && p.Index == nil {
		return
	}
	c.backend = c.tools.Backends.Join(p.ID, backendController{c}, backend.Member{Name: c.program.Name, Open: p.Notifications,
		Indexed: p.Index != nil})
	c.gate = index.NewGate(index.GateOptions{
		IsReleased: func(key queue.Key) bool {
			o := c.Get(key)
			return o != nil && c.PhaseOf(o) != controller.PhaseManaged
		},
		IndexesComplete: c.backend.MayCall, Add: c.Queue.Add,
	})
	if p.Index != nil {
		c.feed = index.NewFeed(index.Options{
			Controller: c.program.Object, Resource: c.program.Resource, Selects: c.rules.Selects, Watch: c.watchForIndex,
			CheckList: func(ctx context.Context, namespace string) error {
				return c.tools.Access.CheckList(ctx, c.userFor(namespace), c.program.Resource, namespace)
			},
			Send: p.Index, Backend: c.backend, Gate: c.gate, Log: c.Log,
		})
	}
}

// watchForIndex opens watches of the handled objects of their own.
func (c *Controller) watchForIndex(changed func(cache.Event)) (views []*cache.View) {
	for _, selection := range c.program.Selections() {
		views = append(views, c.tools.Store.Watch(selection, changed))
	}
	return views
}

// backendController is what the process knows of a controller.
type backendController struct{ *Controller }

var _ backend.Controller = backendController{}

// Connected collects from all daemons, and sends the index again.
func (c backendController) Connected() {
	c.feed.Restart()
	if slices.ContainsFunc(c.program.Handlers, func(h trigger.Handler) bool { return h.Daemon != nil }) {
		c.SyncAll(queue.Cause{Kind: queue.Connected})
	}
}

// Handles reports whether the controller handles objects of a kind.
func (c backendController) Handles(apiVersion, kind string) bool {
	return c.program.Resource.Kind == kind && c.program.Resource.APIVersion() == apiVersion
}

// Notified queues the named object.
func (c backendController) Notified(n *hook.Notification) {
	key := queue.Key{Namespace: n.Namespace, Name: n.Name}
	if o := c.Get(key); o != nil && (n.UID == "" || n.UID == o.UID()) {
		c.Queue.Add(controller.KeyOf(o), queue.Cause{Kind: queue.Notified})
	}
}

// SendEvent sends an event for the named object, with the rights of the controller.
func (c backendController) SendEvent(n *hook.Notification) {
	metadata := map[string]string{"name": n.Name, "namespace": n.Namespace, "uid": n.UID}
	text, err := json.Marshal(map[string]any{"apiVersion": n.APIVersion, "kind": n.Kind, "metadata": metadata})
	if err != nil {
		return
	}
	about, event := c.Get(queue.Key{Namespace: n.Namespace, Name: n.Name}), n.Event
	if about != nil {
		values := c.ValuesOf(about, slices.Concat(c.ownedBy(about)...)...)
		event.Reason, event.Message = values.Text(event.Reason), values.Text(event.Message)
	}
	if o, err := object.Parse(text); err == nil {
		c.tools.Observer.Event(o, event)
	}
}

// IndexesComplete makes the calls that waited for indexes.
func (c backendController) IndexesComplete() { c.gate.Release() }
