package state

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

func (e *Space) requestOf(r *loop.Request) *Request {
	k := key(nil).text(r.Method).text(r.Target).text(r.ContentType).text(r.Accept).text(r.User)
	return e.requests.add(append(k, r.Body...), func(id uint32) *Request { return &Request{id, *r} })
}

func (e *Space) begin(item world.Item, seen *view) *run {
	k := appendItem(key(nil).number(0).number(seen.id), item)
	return e.runs.add(k, func(id uint32) *run { return &run{id: id, item: item, view: seen} })
}

// afterResponse returns the run after a response.
func (e *Space) afterResponse(r *run, response loop.Response) *run {
	k := key(nil).number(1).number(r.id).number(uint32(response.Code))
	if response.Err != nil {
		k = k.text(response.Err.Error())
	}
	return e.runs.add(append(k, response.Body...), func(id uint32) *run {
		return &run{id: id, item: r.item, view: r.view, before: r,
			exchange: loop.Exchange{Request: r.request.Request, Response: response}}
	})
}

// exchanges returns the requests of a run so far.
func (r *run) exchanges() []loop.Exchange {
	var all []loop.Exchange
	for ; r.before != nil; r = r.before {
		all = append(all, r.exchange)
	}
	slices.Reverse(all)
	return all
}

func (w *Worker) next(r *run) *world.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != nil {
		return r.step
	}
	w.Computed.Steps.Add(1)
	step := w.Process.Step(world.Run{Item: r.item, Cached: r.view.objects(), Exchanges: r.exchanges()})
	if step.Err != nil && w.Err == nil {
		w.Err = step.Err
	}
	if step.Request != nil {
		r.request = w.requestOf(step.Request)
	}
	r.step = &step
	return r.step
}

// Do returns what a request leads to.
func (w *Worker) Do(at *Contents, r *Request) *result {
	at.mu.Lock()
	defer at.mu.Unlock()
	if known := at.done[r.id]; known != nil {
		return known
	}
	w.Computed.Requests.Add(1)
	after, response := w.Server.Do(at.Raw(), r.Request)
	if at.done == nil {
		at.done = map[uint32]*result{}
	}
	at.done[r.id] = &result{w.storedFrom(after), response}
	return at.done[r.id]
}

// isFresh reports whether a run began with the newest specs of what users keep.
func (r *run) isFresh(at *Contents, seeds map[*Name]bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, known := r.fresh[at.id]
	if known {
		return fresh
	}
	fresh = true
	for n := range seeds {
		now, seen := at.Get(n).Version, r.view.get(n)
		fresh = fresh && (seen == nil || now != nil && seen.Object.IntentDigest() == now.Object.IntentDigest())
	}
	if r.fresh == nil {
		r.fresh = map[uint32]bool{}
	}
	r.fresh[at.id] = fresh
	return fresh
}

// action returns a step of a run.
func (r *run) action(kind world.ActionKind, text string) action {
	return action{kind: kind, controller: r.item.Controller, key: r.item.Key, text: text}
}

// itemsAtStart returns what a process queues that has just listed objects.
func (w *Worker) itemsAtStart(v *view) []world.Item {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.started == nil {
		items := w.Process.Start(v.objects())
		v.started = &items
	}
	return *v.started
}

// maxRequests bounds the requests of one reconcile at rest.
const maxRequests = 100

// onceMore reconciles an item of a state at rest. It looks at each request and what it leads to, until one changes something or
// the look says that it is enough. It returns the error of the run.
func (w *Worker) onceMore(at State, item world.Item, look func(*run, *result) (enough bool)) error {
	r := w.begin(item, at.process.view)
	for range maxRequests {
		if end := w.next(r).End; end != nil {
			return end.Err
		}
		done := w.Do(at.Stored, r.request)
		if look(r, done) || done.after != at.Stored {
			return nil
		}
		r = w.afterResponse(r, done.Response)
	}
	return nil
}

// Undesired reconciles everything once more. It returns what would be written, or the run that fails.
func (w *Worker) Undesired(at State) (wrote string, fails *world.Item, failure error) {
	for _, item := range w.itemsAtStart(at.process.view) {
		failure = w.onceMore(at, item, func(r *run, done *result) bool {
			if done.after != at.Stored {
				wrote = fmt.Sprintf("one more reconcile of %s writes: %s", item.Key,
					describeWrite(&r.request.Request, done.Response, w.Changes(at.Stored, done.after)))
			}
			return false
		})
		if wrote != "" || failure != nil {
			return wrote, &item, failure
		}
	}
	return "", nil, nil
}

// HeldByOutage reports whether a write of a reconcile of an object is refused because a right was revoked: that, and not the
// controller, keeps the object.
func (w *Worker) HeldByOutage(at State, n *Name) bool {
	outages := loop.OutagesAmong(at.Stored.Raw().Objects())
	refused := false
	for _, item := range w.itemsAtStart(at.process.view) {
		if len(outages) == 0 || w.nameOf(item.Object) != n {
			continue
		}
		_ = w.onceMore(at, item, func(r *run, _ *result) bool { // Only its requests count.
			refused = refused || slices.ContainsFunc(outages, func(one loop.Outage) bool {
				return one.Refusal(&r.request.Request) == http.StatusForbidden
			})
			return refused
		})
	}
	return refused
}
