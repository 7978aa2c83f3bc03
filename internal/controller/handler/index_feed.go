package handler

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// A call of an index has at most this many objects and about this many bytes.
const (
	maxIndexObjects = 500
	maxIndexBytes   = 4 << 20
)

// indexFeed sends the handled objects to the index of the process, and then each change.
type indexFeed struct {
	controller *Controller
	wake       chan struct{}

	mu    sync.Mutex
	views []*cache.View
	// listing means that the list has to be sent from its begin; before the first one, changes
	// are ignored.
	listing, started bool
	// first means that the next call is the first of a list, and left is how many of the
	// changes are of the list.
	first bool
	left  int
	// known are the latest states that were sent or are about to be, by UID.
	known map[string]*object.Object
	// changes are the latest states that are not sent yet, by UID, and order are their UIDs.
	changes map[string]indexChange
	order   []string
}

// indexChange is the latest state of an object.
type indexChange struct {
	key    queue.Key
	object *object.Object
	gone   bool
}

func newIndexFeed(c *Controller) *indexFeed {
	return &indexFeed{controller: c, wake: make(chan struct{}, 1), changes: map[string]indexChange{}}
}

// begin opens watches of the feed's own, which also deliver the controller's own writes, and waits
// until they have delivered what exists. The first list comes with restart.
func (f *indexFeed) begin(ctx context.Context) {
	f.mu.Lock()
	f.listing, f.started, f.first = false, false, false
	f.known, f.changes, f.order, f.views = nil, map[string]indexChange{}, nil, nil
	f.mu.Unlock()
	var views []*cache.View
	for _, selection := range f.controller.program.Selections() {
		views = append(views, f.controller.tools.Store.Watch(selection, f.changed))
	}
	for _, view := range views {
		select {
		case <-view.Ready():
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	f.views = views
	f.mu.Unlock()
}

// end closes the watches.
func (f *indexFeed) end() {
	f.controller.backend.SetComplete(false)
	for _, view := range f.views {
		view.Close()
	}
}

// run sends until the context ends.
func (f *indexFeed) run(ctx context.Context) {
	var retry attempt
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
			retry = attempt{}
			continue
		}
		if ctx.Err() == nil {
			f.failed(err)
			retry.failed(time.Now(), rand.Float64)
			f.sleep(ctx, retryDelay(err, retry.next))
		}
	}
}

// send makes a call, if the ServiceAccount may list the objects in it.
func (f *indexFeed) send(ctx context.Context, request *hook.IndexRequest, sent []indexChange) error {
	c := f.controller
	checked := map[string]bool{}
	for _, change := range sent {
		namespace := change.key.Namespace
		if checked[namespace] {
			continue
		}
		checked[namespace] = true
		if err := c.tools.Access.CheckList(ctx, c.userFor(namespace), c.program.Resource, namespace); err != nil {
			return err
		}
	}
	values := redact.New(nil)
	values.See(false, func(visit func(json.RawMessage)) {
		for _, o := range request.Objects {
			visit(o)
		}
	})
	return values.Error(c.program.Backend.Index(ctx, request))
}

// sleep waits before a retry; a new connection ends the wait.
func (f *indexFeed) sleep(ctx context.Context, delay time.Duration) {
	end := time.After(delay)
	for {
		select {
		case <-f.wake:
			f.mu.Lock()
			listing := f.listing
			f.mu.Unlock()
			if listing {
				return
			}
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// restart sends everything again, because the process may be a new one.
func (f *indexFeed) restart() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.controller.backend.SetComplete(false)
	f.listing = true
	wake(f.wake)
}

// changed adds a change. The controller passes each event on before it queues the object, and the
// feed's own watches deliver the same event again.
func (f *indexFeed) changed(e cache.Event) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started {
		return // The list will have it.
	}
	selected := e.New != nil && f.controller.rules.selects(e.New)
	if e.Old != nil && (!selected || e.Old.UID() != e.New.UID()) {
		f.remove(e.Old)
	}
	if selected {
		f.put(e.New)
	}
	wake(f.wake)
}

// put adds an object that is new or differs. It is called with the lock held.
func (f *indexFeed) put(o *object.Object) {
	former := f.known[o.UID()]
	if former != nil && o.Version() <= former.Version() {
		return
	}
	f.known[o.UID()] = o
	if former == nil || differs(former, o) {
		f.add(o, false)
	}
}

// remove adds the end of an object. It is called with the lock held.
func (f *indexFeed) remove(o *object.Object) {
	if f.known[o.UID()] != nil {
		delete(f.known, o.UID())
		f.add(o, true)
	}
}

// add is called with the lock held. It replaces an earlier change of the object.
func (f *indexFeed) add(o *object.Object, gone bool) {
	uid, change := o.UID(), indexChange{controller.KeyOf(o), o, gone}
	if _, pending := f.changes[uid]; !pending {
		f.order = append(f.order, uid)
		f.controller.gate.close(change.key)
	}
	f.changes[uid] = change
}

// next returns the next request, and the changes in it; nil if there is nothing to send.
func (f *indexFeed) next() (*hook.IndexRequest, []indexChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listing {
		f.startList()
	}
	if !f.first && len(f.order) == 0 {
		return nil, nil
	}
	p := &f.controller.program
	request := &hook.IndexRequest{Controller: p.Object, APIVersion: p.Resource.APIVersion(), Kind: p.Resource.Kind, First: f.first}
	var sent []indexChange
	size := 0
	for _, uid := range f.order {
		if len(sent) == maxIndexObjects || size > maxIndexBytes {
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
func (f *indexFeed) startList() {
	f.listing, f.first, f.started = false, true, true
	f.drop()
	f.known = map[string]*object.Object{}
	for _, view := range f.views {
		for o := range view.All() {
			if f.controller.rules.selects(o) {
				f.put(o)
			}
		}
	}
	f.left = len(f.order)
}

// drop drops all changes.
func (f *indexFeed) drop() {
	keys := make([]queue.Key, 0, len(f.order))
	for _, uid := range f.order {
		keys = append(keys, f.changes[uid].key)
	}
	clear(f.changes)
	f.order = nil
	f.controller.gate.open(keys)
}

// sent records that the process has changes. Of an object that has changed again, the later
// change remains.
func (f *indexFeed) sent(request *hook.IndexRequest, sent []indexChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listing {
		return // The process may be a former one.
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
		keys = append(keys, change.key)
	}
	f.order = append(again, f.order[len(sent):]...)
	f.first, f.left = false, max(0, f.left-len(sent))
	f.controller.gate.open(keys)
	if request.Complete {
		f.controller.backend.SetComplete(true)
	}
}

// failed records a failed call. If the process rejects it, it gets everything again.
func (f *indexFeed) failed(err error) {
	c := f.controller
	c.backend.SetIndexError(err)
	c.Log.Warn("index not sent; retrying", "error", failure.OneLine(err))
	code := hook.StatusCode(err)
	if code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests {
		f.restart()
	}
}

// retryDelay returns the delay that the process requests, else that of the backoff.
func retryDelay(err error, next time.Time) time.Duration {
	if requested, is := hook.RetryDelay(err); is {
		return requested
	}
	return time.Until(next)
}
