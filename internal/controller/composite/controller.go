package composite

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// maxDelay bounds the backoff of a failing parent; see controller.EventInterval.
const maxDelay = 35 * time.Second

// Controller runs one program.
type Controller struct {
	*controller.Base

	program     Program
	tools       Tools
	orphanIndex *selector.Index
	// ownWrites is empty for composites.
	ownWrites     controller.SharedMap[queue.Key, ownWrite]
	nameWaiters   controller.SharedMap[childName, nameWaiters]
	lostChildren  controller.SharedMap[queue.Key, []lostChild]
	recoveryProbe recoveryProbe
	// deletionGuard holds deletions.
	deletionGuard *guard.Guard
	// related is nil without a customize hook.
	related  *related.Registry
	parents  *cache.View
	children []childKind
	// revisions is nil if no child rule is rolling.
	revisions *cache.View
	// comparedRelated has the related objects of the new version while a rollout compares it; nil without a customize hook.
	comparedRelated *related.Registry
	// Router chooses the version of the hooks for each parent.
	Router *router.Router
}

// childKind is a kind of child and its watches; none if the kind is not served any more.
type childKind struct {
	rule    plan.Rule
	watches childWatches
}

// New returns a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	if tools.Now == nil {
		tools.Now = time.Now
	}
	if tools.Queue.Random == nil {
		tools.Queue.Random = rand.Float64
	}
	tools.Queue.MaxDelay = maxDelay
	if program.FullObjects {
		tools.Writer = tools.Writer.WithManagedFields()
	}
	c := &Controller{
		program:     program,
		tools:       tools,
		orphanIndex: selector.New(),
	}
	c.Base = controller.New(c, controller.Options{
		Name: program.Name, Resource: program.Parent, Workers: program.Workers, Queue: tools.Queue,
		Filtered: program.serverSelector() != "" || program.Fields != "", Observer: tools.Observer, Unrecorded: tools.Unrecorded,
		Log: tools.Log, Tracer: tools.Tracer, Now: tools.Now,
	})
	if c.deletionGuard = tools.DeletionGuard; c.deletionGuard == nil {
		c.deletionGuard = guard.New(program.DeletionLimit, tools.Now)
	}
	c.deletionGuard.Add(c.Base, c.countChildren)
	if program.Customizes() {
		options := related.Options{
			Store: tools.Store, Scope: program.Scope, Managed: program.FullObjects, Resolve: tools.Resolve, Enqueue: c.relatedChanged,
		}
		c.related = related.New(options)
		if program.Former != nil {
			options.Enqueue = func(queue.Key, *object.Object) {}
			c.comparedRelated = related.New(options)
		}
	}
	c.Router = c.newRouter()
	c.watch()
	c.SetWatching()
	return c
}

// Run reconciles parents until the context ends. It returns when the last worker has.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.reconcile, func() {}, c.Router.Wait)
}

// RunItem reconciles one parent in the caller's goroutine, without workers. It must not run at the same
// time as Run.
func (c *Controller) RunItem(ctx context.Context, item queue.Item) queue.Outcome {
	return c.reconcile(ctx, item)
}

// RetryNow retries failed parents at once, because the reason for their failures seems to be gone.
func (c *Controller) RetryNow() { c.Queue.RetryNow() }

// RetryWrites is RetryNow: a retry observes, plans and writes anew.
func (c *Controller) RetryWrites() { c.RetryNow() }

// Close ends the watches and drops the queue. Call it after Run has returned.
func (c *Controller) Close() {
	c.Base.Close()
	if c.related != nil {
		c.related.Close()
	}
	if c.comparedRelated != nil {
		c.comparedRelated.Close()
	}
}

// scheduleResync plans the next periodic resync, with jitter so that parents spread out.
func (c *Controller) scheduleResync(key queue.Key) {
	if period := c.program.Resync; period > 0 {
		spread := time.Duration(c.tools.Queue.Random() * 0.1 * float64(period))
		c.Queue.AddAfter(key, queue.Cause{Kind: queue.Resync}, period-spread)
	}
}

func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered) *run {
	parent := of.Stored
	r := &run{Controller: c, Run: of, memory: remembered.(*memory), parent: parent, logic: c.Router.Of(parent)}
	r.planner = c.program.planner(parent)
	r.planner.Secrets = of.Secrets
	return r
}

// planner returns what plans the children of a parent. It has no selector yet.
func (p *Program) planner(parent *object.Object) plan.Planner {
	return plan.Planner{
		Parent:           parent,
		Namespaced:       p.Parent.Namespaced,
		Namespaces:       p.Namespaces,
		Rules:            p.Children,
		GenerateSelector: p.GenerateSelector,
		LastApplied:      p.LastApplied,
		OmitValues:       p.OmitValues,
		Manager:          p.Manager,
		Mark:             p.Mark,
		Lenient:          p.Lenient,
	}
}

// Planner returns what plans the children of a parent.
func (p *Program) Planner(parent *object.Object) (plan.Planner, error) {
	planner := p.planner(parent)
	if p.isDecorator() {
		return planner, nil
	}
	var err error
	planner.Selector, err = selector.Of(parent, p.GenerateSelector)
	return planner, err
}

// Drop drops the state of a parent.
func (c *Controller) Drop(key queue.Key) {
	c.dropNameWaiter(key)
	c.lostChildren.Take(key)
	c.recoveryProbe.drop(key)
	c.deletionGuard.Drop(c.ID(key))
	c.Router.Drop(key)
	c.orphanIndex.Drop(key)
	if c.related != nil {
		c.related.Drop(key)
	}
}

// watch starts the watches, parents first, so that children find their parents.
func (c *Controller) watch() {
	parents := cache.Selection{Resource: c.program.Parent, Namespace: c.program.NamespacesOf(c.program.Parent)[0],
		Managed: c.program.FullObjects}
	parents.Labels, parents.Fields = c.program.serverSelector(), c.program.Fields
	c.parents = c.tools.Store.Watch(parents, c.parentChanged)
	c.AddObjects(parents, c.parents)
	for _, rule := range c.program.Children {
		kind := childKind{rule: rule}
		if !rule.Resource.Unserved {
			kind.watches = c.watchChildren(rule.Resource)
		}
		c.children = append(c.children, kind)
	}
	c.watchRevisions()
}

// watchChildren starts the watches of a kind of children.
func (c *Controller) watchChildren(resource object.Resource) (all childWatches) {
	for _, namespace := range c.program.NamespacesOf(resource) {
		selection := cache.Selection{Resource: resource, Namespace: namespace, Managed: c.program.FullObjects}
		if c.program.GenerateSelector {
			// Every child has this label, so the watch needs no other objects.
			selection.Labels = plan.UIDLabel
		}
		view := c.tools.Store.Watch(selection, c.childChanged)
		c.AddWatch(selection, view)
		all = append(all, controller.Watch{Resource: resource, Namespace: namespace, View: view})
	}
	return all
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for all.
// The children of a namespaced parent are in its namespace.
func (p *Program) NamespacesOf(resource object.Resource) []string {
	switch {
	case !resource.Namespaced:
		return []string{""}
	case p.Parent.Namespaced:
		return []string{p.Namespace}
	case len(p.Namespaces) == 0:
		return []string{""}
	}
	return p.Namespaces
}

// RevisionNamespace returns the namespace in which the program watches and writes revisions, "" for
// all. Those of cluster-scoped parents may be in an earlier namespace of Setpoint, unless the
// program is limited to namespaces.
func (p *Program) RevisionNamespace() string {
	if !p.Parent.Namespaced && len(p.Namespaces) > 0 {
		return p.Revisions.Namespace
	}
	return p.Namespace
}

// serverSelector returns a label selector for the API server. It is empty if parents that stop
// matching have to be finalized.
func (p *Program) serverSelector() string {
	if len(p.Selections) != 1 || p.Selections[0].Labels == nil || p.Finalizes() {
		return ""
	}
	return p.Selections[0].Labels.String()
}

// parentChanged enqueues a parent that was created, edited or deleted.
func (c *Controller) parentChanged(e cache.Event) {
	cause := c.causeOf(e)
	if cause == queue.Unspecified {
		return
	}
	if e.New == nil {
		c.orphanIndex.Drop(controller.KeyOf(e.Old))
		c.ownWrites.Take(controller.KeyOf(e.Old))
	} else {
		c.indexSelector(e.New)
	}
	c.QueueObject(e, cause)
}

// causeOf returns the cause of a parent's event; Unspecified for none.
func (c *Controller) causeOf(e cache.Event) queue.CauseKind {
	cause := c.CauseOf(e, c.isEdit)
	if cause == queue.StatusChanged && !c.program.SyncOnStatusChange {
		return queue.Unspecified
	}
	return cause
}

// indexSelector indexes the selector of a parent. Decorators adopt nothing.
func (c *Controller) indexSelector(parent *object.Object) {
	if !c.program.isDecorator() {
		c.orphanIndex.Set(controller.KeyOf(parent), parent, c.program.GenerateSelector)
	}
}

// isEdit reports whether another client changed more than the status. For kinds without generations
// every change counts.
func (c *Controller) isEdit(e cache.Event) bool {
	if e.Old.IntentDigest() == e.New.IntentDigest() && e.New.Generation() > 0 || c.isOwnWrite(e.New) {
		return false
	}
	c.ownWrites.Take(controller.KeyOf(e.New))
	return true
}

// childChanged enqueues the parents that own the object, owned it, or may adopt it.
func (c *Controller) childChanged(e cache.Event) {
	c.AwaitWatches()
	if e.New == nil {
		c.noteLostChild(e.Old)
	}
	if e.Old != nil {
		c.enqueueOwner(e.Old)
	}
	if e.New == nil {
		c.enqueueNameWaiters(e.Old)
		return
	}
	if _, owned := e.New.Controller(); !owned {
		c.enqueueAdopters(e.New)
		return
	}
	if e.Old == nil || !sameOwner(e.Old, e.New) || e.Old.Digest() != e.New.Digest() {
		c.enqueueOwner(e.New)
	}
}

func sameOwner(a, b *object.Object) bool {
	owner, owned := a.Controller()
	return owned && b.ControlledBy(owner.UID)
}

func (c *Controller) enqueueOwner(child *object.Object) {
	if c.ownerOf(child) != nil {
		c.QueueOwner(child)
	}
}

// ownerOf returns the parent that controls a child; nil if it is not managed here.
func (c *Controller) ownerOf(child *object.Object) *object.Object {
	if c.program.isDecorator() && !c.program.Mark.On(child) {
		return nil
	}
	return c.OwnerOf(child)
}

// enqueueAdopters enqueues the parents whose selectors match an orphan.
func (c *Controller) enqueueAdopters(orphan *object.Object) {
	for _, key := range c.orphanIndex.Matching(orphan, c.program.Parent.Namespaced) {
		c.Queue.Add(key, c.ChildCause(orphan))
	}
}

// enqueueNameWaiters enqueues the parents that wait for the name of a deleted object.
func (c *Controller) enqueueNameWaiters(gone *object.Object) {
	for key := range c.nameWaiters.Take(childNameOf(gone)) {
		c.Queue.Add(key, c.ChildCause(gone))
	}
}

// childWatches are the watches of one kind of children: one, or one for each namespace if a program
// of cluster-scoped parents is limited to namespaces.
type childWatches []controller.Watch

// owned returns the objects that a parent controls.
func (w childWatches) owned(parent *object.Object) (all []*object.Object) {
	for _, one := range w {
		all = append(all, one.View.Owned(parent)...)
	}
	return all
}

// orphans returns the objects without a controller that match a selector.
func (w childWatches) orphans(namespace string, matching labels.Selector) (all []*object.Object) {
	for _, one := range w {
		all = append(all, one.View.Orphans(namespace, matching)...)
	}
	return all
}

// Health returns the health of the controller.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	if c.related != nil {
		for _, w := range c.related.Watches() {
			if w.Err != nil {
				h.WatchErrors[w.Selection.String()] = w.Err
			}
		}
	}
	h.Held, h.HeldUnknown = c.deletionGuard.Held(c.Base), c.deletionGuard.HeldUnknown()
	if c.program.serverSelector() == "" && len(c.program.Selections) > 0 {
		h.Parents = c.Memories.Len()
	}
	return h
}

// RelatedKinds returns the kinds of the related objects that the controller watches.
func (c *Controller) RelatedKinds() []object.Resource {
	if c.related == nil {
		return nil
	}
	var all []object.Resource
	for _, w := range c.related.Watches() {
		all = append(all, w.Selection.Resource)
	}
	return all
}

// nameWaiters are parents that wait for a name which another object has. They are enqueued when it
// is free, before their backoff ends. Parents that no longer need the name are enqueued once in vain.
type nameWaiters = map[queue.Key]bool

// childName identifies a child.
type childName struct {
	kind            object.GroupKind
	namespace, name string
}

func childNameOf(o *object.Object) childName {
	return childName{o.GroupKind(), o.Namespace(), o.Name()}
}

func (c *Controller) addNameWaiter(name childName, parent queue.Key) {
	c.nameWaiters.Edit(func(byName map[childName]nameWaiters) {
		if byName[name] == nil {
			byName[name] = nameWaiters{}
		}
		byName[name][parent] = true
	})
}

func (c *Controller) dropNameWaiter(parent queue.Key) {
	c.nameWaiters.Edit(func(byName map[childName]nameWaiters) {
		maps.DeleteFunc(byName, func(_ childName, waiters nameWaiters) bool {
			delete(waiters, parent)
			return len(waiters) == 0
		})
	})
}

// user is the user of the ServiceAccount; empty for Setpoint itself.
func (r *run) user() string { return r.program.Account.UserFor(r.Stored.Namespace()) }

// writer reads from the API server and writes to it.
type writer interface {
	Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error)
	Update(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	UpdateStatus(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	ApplyPlan(ctx context.Context, p plan.Plan) []apply.Result
	LastManager(ctx context.Context, a plan.Action) (string, error)
}

// writer writes as the controller's ServiceAccount. That of a dry run does not write.
func (r *run) writer() writer {
	if r.dry != nil {
		return r.dry
	}
	return r.tools.Writer.As(r.user())
}

// checkReads returns an error unless the ServiceAccount may read the parent and its children.
func (r *run) checkReads(ctx context.Context) error {
	if err := r.tools.Access.CheckRead(ctx, r.user(), r.program.Parent, r.Stored.Namespace(), r.Stored.Name()); err != nil {
		return err
	}
	return r.checkChildReads(ctx)
}

// checkChildReads returns an error unless the ServiceAccount may read the kinds of children: the caches have
// what Setpoint itself may read. It does not depend on the objects that exist, so that others cannot make a
// run fail by an object of theirs.
func (r *run) checkChildReads(ctx context.Context) error {
	for _, rule := range r.program.Children {
		if rule.Resource.Unserved {
			continue
		}
		namespaces := []string{r.Stored.Namespace()}
		if !r.program.Parent.Namespaced {
			namespaces = r.program.NamespacesOf(rule.Resource)
		}
		if err := r.tools.Access.CheckList(ctx, r.user(), rule.Resource, namespaces...); err != nil {
			return err
		}
	}
	return nil
}
