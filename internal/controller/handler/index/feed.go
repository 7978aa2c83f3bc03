// Package index sends the objects of a controller to the index of the process of its handlers.
//
// A process may answer from an index of all objects. Its feed sends a list, and then each change; its gate holds back
// the calls about an object until the process has the latest change of it.
package index

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// A call of an index has at most this many objects and about this many bytes.
const (
	maxObjects = 500
	MaxBytes   = 4 << 20
)

// Feed sends the handled objects to the index of the process, and then each change, from Begin on. A nil Feed has nothing to
// send.
type Feed struct {
	Base *controller.Base
	// Controller is the controller as handlers see it.
	Controller json.RawMessage
	// Selections are the watches of its objects. Selects reports whether one is handled.
	Selections []cache.Selection
	Selects    func(*object.Object) bool
	// Send makes a call, Backend is the process that gets it.
	Send    func(context.Context, *hook.IndexRequest) error
	Backend *backend.Membership
	// Gate holds back calls until the process has what the feed sends.
	Gate *Gate

	runs sync.WaitGroup

	mu    sync.Mutex
	wake  chan struct{}
	views []*cache.View
	state
}

type state struct {
	// listing means that the list has to be sent from its begin; before the first one, changes are ignored.
	listing, started bool
	// first means that the next call is the first of a list, and left is how many of the changes are of the list.
	first bool
	left  int
	// known are the latest states that were sent or are about to be, by UID.
	known map[string]*object.Object
	// changes are the latest states that are not sent yet, by UID, and order are their UIDs.
	changes map[string]change
	order   []string
}

type change struct {
	object *object.Object
	gone   bool
}

// Begin opens watches of the feed's own, which also deliver the controller's own writes, waits until they have
// delivered what exists, and sends from then on until the context ends. The first list comes with Restart.
func (f *Feed) Begin(ctx context.Context) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.state, f.views, f.wake = state{}, nil, make(chan struct{}, 1)
	f.mu.Unlock()
	views := lists.Map(f.Selections, func(s cache.Selection) *cache.View { return f.Base.Store.Watch(s, f.Changed) })
	for _, view := range views {
		select {
		case <-view.Ready():
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	f.views = views
	f.mu.Unlock()
	f.runs.Go(func() { f.run(ctx) })
}

// End waits until nothing is sent any more, and closes the watches. The context of Begin has ended.
func (f *Feed) End() {
	if f == nil {
		return
	}
	f.runs.Wait()
	f.Backend.SetComplete(false)
	for _, view := range f.views {
		view.Close()
	}
}

func (f *Feed) run(ctx context.Context) {
	var retry trigger.Attempt
	for ctx.Err() == nil {
		request, sent := f.next()
		if request == nil {
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := f.send(ctx, request, sent)
		if err == nil {
			f.sent(request, sent)
			retry = trigger.Attempt{}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		f.Backend.SetIndexError(err)
		f.Base.Log.Warn("index not sent; retrying", "error", failure.OneLine(err))
		code := hook.StatusCode(err)
		if code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests {
			f.Restart() // The process rejects it.
		}
		retry.Failed(time.Now(), rand.Float64)
		delay, requested := hook.RetryDelay(err)
		if !requested {
			delay = time.Until(retry.Next)
		}
		f.sleep(ctx, delay)
	}
}

// send makes a call, if the ServiceAccount may list the objects in it.
func (f *Feed) send(ctx context.Context, request *hook.IndexRequest, sent []change) error {
	namespaces := lists.Map(sent, func(c change) string { return c.object.Namespace() })
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		if err := f.Base.Access.CheckList(ctx, f.Base.UserFor(namespace), f.Base.Resource(), namespace); err != nil {
			return err
		}
	}
	values := redact.New(nil)
	values.See(false, func(visit func(json.RawMessage)) {
		for _, o := range request.Objects {
			visit(o)
		}
	})
	return values.Error(f.Send(ctx, request))
}

// sleep waits before a retry; a new connection ends the wait.
func (f *Feed) sleep(ctx context.Context, delay time.Duration) {
	end := time.After(delay)
	for {
		select {
		case <-f.wake:
			f.mu.Lock()
			again := f.listing
			f.mu.Unlock()
			if again {
				return
			}
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Restart sends everything again, because the process may be a new one.
func (f *Feed) Restart() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Backend.SetComplete(false)
	f.listing = true
	f.wakeUp()
}

// Changed adds a change. The controller passes each event on before it queues the object, and the
// feed's own watches deliver the same event again.
func (f *Feed) Changed(e cache.Event) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started {
		return // The list will have it.
	}
	selected := e.New != nil && f.Selects(e.New)
	if e.Old != nil && (!selected || e.Old.UID() != e.New.UID()) && f.known[e.Old.UID()] != nil {
		delete(f.known, e.Old.UID())
		f.add(e.Old, true)
	}
	if selected {
		f.put(e.New)
	}
	f.wakeUp()
}

// put adds an object that is new or differs. It is called with the lock held.
func (f *Feed) put(o *object.Object) {
	previous := f.known[o.UID()]
	if previous != nil && o.Version() <= previous.Version() {
		return
	}
	f.known[o.UID()] = o
	if previous == nil || trigger.Differs(previous, o) {
		f.add(o, false)
	}
}

// add is called with the lock held. It replaces an earlier change of the object.
func (f *Feed) add(o *object.Object, gone bool) {
	uid := o.UID()
	if _, pending := f.changes[uid]; !pending {
		f.order = append(f.order, uid)
		f.Gate.close(controller.KeyOf(o))
	}
	f.changes[uid] = change{o, gone}
}

// next returns the next request, and the changes in it; nil if there is nothing to send.
func (f *Feed) next() (*hook.IndexRequest, []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listing {
		f.startList()
	}
	if !f.first && len(f.order) == 0 {
		return nil, nil
	}
	of := f.Base.Resource()
	request := &hook.IndexRequest{Controller: f.Controller, APIVersion: of.APIVersion(), Kind: of.Kind, First: f.first}
	var sent []change
	size := 0
	for _, uid := range f.order {
		if len(sent) == maxObjects || size > MaxBytes {
			break
		}
		change := f.changes[uid]
		sent = append(sent, change)
		if o := change.object; change.gone {
			request.Deleted = append(request.Deleted, hook.DeletedObject{Namespace: o.Namespace(), Name: o.Name(), UID: o.UID()})
		} else {
			request.Objects = append(request.Objects, json.RawMessage(o.JSON()))
			size += len(o.JSON())
		}
	}
	request.Complete = len(sent) >= f.left
	return request, sent
}

// startList makes all handled objects pending. Deletions need not be sent before a list.
func (f *Feed) startList() {
	dropped := lists.Map(f.order, func(uid string) queue.Key { return controller.KeyOf(f.changes[uid].object) })
	f.state = state{first: true, started: true, known: map[string]*object.Object{}, changes: map[string]change{}}
	f.Gate.open(dropped)
	for _, view := range f.views {
		for o := range view.All() {
			if f.Selects(o) {
				f.put(o)
			}
		}
	}
	f.left = len(f.order)
}

// sent records that the process has changes. Of an object that has changed again, the later change remains.
func (f *Feed) sent(request *hook.IndexRequest, sent []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listing {
		return // The process may be another one now.
	}
	var keys []queue.Key
	var again []string
	for _, change := range sent {
		uid := change.object.UID()
		if f.changes[uid] != change {
			again = append(again, uid)
			continue
		}
		delete(f.changes, uid)
		keys = append(keys, controller.KeyOf(change.object))
	}
	f.order = append(again, f.order[len(sent):]...)
	f.first, f.left = false, max(0, f.left-len(sent))
	f.Gate.open(keys)
	if request.Complete {
		f.Backend.SetComplete(true)
	}
}

// wakeUp ends a wait of the feed, now or the next one.
func (f *Feed) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Gate holds back the reconciles of objects until the indexes of the process are complete and have the latest change of
// the object. A nil Gate holds nothing back. Reset opens it.
type Gate struct {
	// IsReleased reports whether the controller only releases an object: its handlers are not called.
	IsReleased func(queue.Key) bool
	// IndexesComplete reports whether all indexes of the process are.
	IndexesComplete func() bool
	// Add queues an object.
	Add func(queue.Key, queue.Cause)

	mu sync.Mutex
	// unsent counts the changes that are not in the index yet. waiting are the causes of the reconciles that are held back.
	unsent  map[queue.Key]int
	waiting map[queue.Key]queue.Causes
}

// Holds reports whether a reconcile has to wait. It is queued again when it may go on. Objects
// that the controller only releases do not wait.
func (g *Gate) Holds(item queue.Item) bool {
	if g == nil || g.IsReleased(item.Key) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.IndexesComplete() && g.unsent[item.Key] == 0 {
		return false
	}
	causes := queue.NewCauses(g.waiting[item.Key].List()...)
	causes.Merge(item.Causes)
	g.waiting[item.Key] = causes
	return true
}

// IsOpen reports whether calls about an object may be made.
func (g *Gate) IsOpen(key queue.Key) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsent[key] == 0
}

// close records a change that is not in the index yet.
func (g *Gate) close(key queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsent[key]++
}

// open records that changes are in the index, and queues what waited for them.
func (g *Gate) open(keys []queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.unsent[key]--
		if g.unsent[key] > 0 {
			continue
		}
		delete(g.unsent, key)
		if causes, waits := g.waiting[key]; waits {
			delete(g.waiting, key)
			g.requeue(key, causes)
		}
	}
}

// QueueWaiting queues everything that waits; what still has to wait comes back.
func (g *Gate) QueueWaiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, causes := range g.waiting {
		g.requeue(key, causes)
	}
	clear(g.waiting)
}

// Reset drops everything, at the begin of a leadership.
func (g *Gate) Reset() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsent, g.waiting = map[queue.Key]int{}, map[queue.Key]queue.Causes{}
}

// IsHeld reports whether an object waits.
func (g *Gate) IsHeld(key queue.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, held := g.waiting[key]
	return held
}

// Len returns the number of objects that wait.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func (g *Gate) requeue(key queue.Key, causes queue.Causes) {
	for _, cause := range causes.List() {
		g.Add(key, cause)
	}
}
