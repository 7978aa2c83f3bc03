package handler

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

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
	c.gate = newCallGate(c)
	if p.Index != nil {
		c.feed = newIndexFeed(c)
	}
}

// followBackend begins to follow the process, and to feed its index.
func (c *Controller) followBackend(ctx context.Context) {
	c.gate.reset()
	if c.feed != nil {
		c.feed.begin(ctx)
		c.feeds.Go(func() { c.feed.run(ctx) })
	}
	c.backend.Start()
}

// unfollowBackend ends what followBackend began, after the context of Run has ended.
func (c *Controller) unfollowBackend() {
	c.backend.Stop()
	c.feeds.Wait()
	if c.feed != nil {
		c.feed.end()
	}
}

// backendController is what the process knows of a controller.
type backendController struct{ *Controller }

var _ backend.Controller = backendController{}

// Connected collects from all daemons, and sends the index again.
func (c backendController) Connected() {
	c.feed.restart()
	if c.hasDaemons() {
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
func (c backendController) IndexesComplete() { c.gate.release() }

// hasDaemons reports whether a handler is a daemon.
func (c *Controller) hasDaemons() bool {
	for i := range c.program.Handlers {
		if c.program.Handlers[i].Daemon != nil {
			return true
		}
	}
	return false
}
