package handler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

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

// noteRelatedChange notes a change of a related object for the handlers. It stays pending until
// a call of the handler is settled, whatever its reason.
func (r *run) noteRelatedChange() {
	if !r.causes.Has(queue.RelatedChanged) {
		return
	}
	for _, h := range r.memory.handlers {
		if h.handles(hook.ReasonRelated) {
			h.relatedChanged, h.relatedUnseen = true, true
		}
	}
}
