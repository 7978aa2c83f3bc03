package state

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// run is a reconcile in flight, and what it does next.
type run struct {
	id      uint32
	process int
	item    world.Item
	view    *view
	// before is the run before its last exchange; nil at the beginning.
	before   *run
	exchange loop.Exchange

	mu   sync.Mutex
	step *world.Step
	// request is that of the step; nil if the run ends.
	request *Request
	// fresh reports whether the run knows the newest specs of what users keep, by what is stored.
	fresh map[uint32]bool
}

// Request is a request with its number.
type Request struct {
	id uint32
	loop.Request
}

func (e *Space) requestOf(r *loop.Request) *Request {
	k := key(nil).text(r.Method).text(r.Target).text(r.ContentType).text(r.Accept).text(r.User)
	return e.requests.add(append(k, r.Body...), func(id uint32) *Request { return &Request{id, *r} })
}

// begin returns the run of an item.
func (e *Space) begin(i int, item world.Item, seen *view) *run {
	k := appendItem(key(nil).number(0).number(uint32(i)).number(seen.id), item)
	return e.runs.add(k, func(id uint32) *run { return &run{id: id, process: i, item: item, view: seen} })
}

// after returns the run after a response.
func (e *Space) after(r *run, response loop.Response) *run {
	k := key(nil).number(1).number(r.id).number(uint32(response.Code))
	if response.Err != nil {
		k = k.text(response.Err.Error())
	}
	return e.runs.add(append(k, response.Body...), func(id uint32) *run {
		return &run{id: id, process: r.process, item: r.item, view: r.view, before: r,
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

// next returns what a run does next.
func (w *Worker) next(r *run) *world.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != nil {
		return r.step
	}
	w.Computed.Steps.Add(1)
	step := w.Processes[r.process].Step(world.Run{Item: r.item, Cached: r.view.objects(), Exchanges: r.exchanges()})
	if step.Err != nil && w.Err == nil {
		w.Err = step.Err
	}
	if step.Request != nil {
		r.request = w.requestOf(step.Request)
	}
	r.step = &step
	return r.step
}

// result is what a request leads to.
type result struct {
	after    *Contents
	Response loop.Response
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

// failures are how a request fails that a run sends.
var failures = []struct {
	name string
	// lands is set if the API server has handled the request all the same.
	lands    bool
	response loop.Response
}{
	{"409 Conflict: another client has changed the object", false, failed(http.StatusConflict, "Conflict",
		"the object has been modified; please apply your changes to the latest version and try again")},
	{"500 Internal Server Error", false, failed(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")},
	{"the connection ends before the response, but the request was handled", true,
		loop.Response{Err: errors.New("read tcp: connection reset by peer")}},
}

func failed(status int, reason, message string) loop.Response {
	return loop.Response{Code: status, Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, status)}
}

// requests are the steps in which the API server handles the next requests of runs, or fails them.
func (x *expansion) requests(i int) {
	for _, r := range x.from.processes.all[i].runs {
		if a := r.action(world.Send, ""); x.wants(a) {
			done := x.Do(x.from.Stored, r.request)
			x.respond(r, a, done.after, done.Response)
		}
		if r.request.Method == http.MethodGet || x.from.Spent.Faults >= x.Most.Faults {
			continue
		}
		for _, f := range failures {
			a, after := r.action(world.Reject, f.name), x.from.Stored
			if !x.wants(a) {
				continue
			}
			if f.lands {
				after = x.Do(x.from.Stored, r.request).after
			}
			if !f.lands || after != x.from.Stored {
				x.respond(r, a, after, f.response)
			}
		}
	}
}

// action returns a step of a run.
func (r *run) action(kind world.ActionKind, text string) action {
	return action{kind: kind, process: r.process, controller: r.item.Controller, key: r.item.Key, text: text}
}

// respond adds the step in which a run gets a response.
func (x *expansion) respond(r *run, a action, after *Contents, response loop.Response) {
	d := x.draft(x.from)
	changed := x.Changes(x.from.Stored, after)
	e := effectOn(changed)
	e.Own = len(changed) > 0
	e.Fresh = e.Own && r.isFresh(x.from.Stored, x.Seeds)
	if e.Own && e.What == Created {
		e.By = x.nameOf(r.item.Object)
	}
	if a.kind == world.Reject {
		d.spent.Faults++
		e.Deviation, e.Resets = true, true
	}
	d.store(after)
	x.add(a, d, e, d.goOn(r.process, r, x.after(r, response))...)
}

// endFindings returns what is wrong with the end of a run.
func endFindings(end *world.End) []property.Finding {
	var all []property.Finding
	if end.Panicked {
		all = append(all, property.Finding{Property: property.Valid, Text: "the reconcile panics: " + end.Err.Error()})
		return all
	}
	if isRejection(end.Err) {
		all = append(all, property.Finding{Property: property.Valid, Text: "the API server rejects a write: " + end.Err.Error()})
	}
	return all
}

// isRejection reports whether an error is, or has among its parts, the refusal of a request that cannot succeed. A refused
// request alone is not enough: Setpoint replaces an object whose update is refused, and that may fail otherwise.
func isRejection(err error) bool {
	if status, is := err.(apierrors.APIStatus); is {
		return slices.Contains(invalidStatuses, int(status.Status().Code))
	}
	switch e := err.(type) { //nolint:errorlint // It unwraps.
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), isRejection)
	case interface{ Unwrap() error }:
		return isRejection(e.Unwrap())
	}
	return false
}

// invalidStatuses are those of requests that cannot succeed whatever the state.
var invalidStatuses = []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType,
	http.StatusMethodNotAllowed}

// RequestOf returns the request of a step; nil if it is none.
func (s State) RequestOf(a *world.Action) *Request {
	if a.Step != world.Send && a.Step != world.Reject {
		return nil
	}
	for _, p := range s.processes.all {
		for _, r := range p.runs {
			if r.item.Controller == a.Controller && r.item.Key.String() == a.Key {
				return r.request
			}
		}
	}
	return nil
}

// maxRequests bounds the requests of one reconcile at rest.
const maxRequests = 100

// onceMore reconciles an item of a state at rest. It looks at each request and what it leads to, until one changes something or
// the look says that it is enough. It returns the error of the run.
func (w *Worker) onceMore(at State, process int, item world.Item, look func(*run, *result) (enough bool)) error {
	r := w.begin(process, item, at.processes.all[process].view)
	for range maxRequests {
		if end := w.next(r).End; end != nil {
			return end.Err
		}
		done := w.Do(at.Stored, r.request)
		if look(r, done) || done.after != at.Stored {
			return nil
		}
		r = w.after(r, done.Response)
	}
	return nil
}

// Undesired reconciles everything once more. It returns what would be written, or the run that fails.
func (w *Worker) Undesired(at State) (wrote string, fails *world.Item, failure error) {
	for i, p := range at.processes.all {
		for _, item := range w.started(i, p.view) {
			failure = w.onceMore(at, i, item, func(r *run, done *result) bool {
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
	}
	return "", nil, nil
}

// HeldByOutage reports whether a write of a reconcile of an object is refused because a right was revoked: that, and not the
// controller, keeps the object.
func (w *Worker) HeldByOutage(at State, n *Name) bool {
	outages := world.OutagesIn(at.Stored.Raw())
	refused := false
	for i, p := range at.processes.all {
		for _, item := range w.started(i, p.view) {
			if len(outages) == 0 || w.nameOf(item.Object) != n {
				continue
			}
			_ = w.onceMore(at, i, item, func(r *run, _ *result) bool { // Only its requests count.
				refused = refused || slices.ContainsFunc(outages, func(one loop.Outage) bool {
					return one.Refusal(&r.request.Request) == http.StatusForbidden
				})
				return refused
			})
		}
	}
	return refused
}
