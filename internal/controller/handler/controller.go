package handler

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Controller runs one program.
type Controller struct {
	*controller.Base

	program     Program
	tools       Tools
	eventBuffer *eventBuffer
	// owned are the watches of owned objects.
	owned   []controller.Watch
	daemons sync.WaitGroup
	// daemonCalls limits the calls to start, update and stop daemons of other processes.
	daemonCalls chan struct{}
	// backend is the process of the handlers; nil if it only serves calls. Calls wait at the
	// gate for what the feed sends; both are nil if there is no such process or index.
	backend *backend.Membership
	gate    *callGate
	feed    *indexFeed
	feeds   sync.WaitGroup
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
	c.daemonCalls = make(chan struct{}, cmp.Or(program.Workers, maxDaemonCalls))
	c.joinBackend()
	c.recoverConditions()
	c.watch()
	c.SetWatching()
	return c
}

// maxDaemonCalls is the maximum of concurrent calls of daemons, unless the program has workers.
const maxDaemonCalls = 32

// Run reconciles objects until the context ends. It returns after the last worker and the last
// daemon.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.reconcile, func() { c.reset(); c.followBackend(ctx) }, func() {
		c.eventBuffer.pause()
		c.daemons.Wait()
		c.unfollowBackend()
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
		c.bufferEvent(observed(e))
	}
	return c.reconcile(ctx, item)
}

// reset drops the state of an earlier leadership, because another replica may have been the
// leader since, and queues every object.
func (c *Controller) reset() {
	c.Memories.Clear()
	c.eventBuffer.resume()
	for o := range c.Managed() {
		c.bufferEvent(observedEvent{cache.Event{New: o}, hook.EventListed})
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
