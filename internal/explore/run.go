package explore

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
)

// run is a reconcile in flight, and what it does next.
type run struct {
	id      uint32
	process int
	item    Item
	view    *view
	// before is the run before its last exchange; nil at the beginning.
	before   *run
	exchange loop.Exchange

	mu   sync.Mutex
	step *Step
	// request is that of the step; nil if the run ends.
	request *request
	// fresh reports whether the run knows the newest specs of what users keep, by what is stored.
	fresh map[uint32]bool
}

// request is a request with its number.
type request struct {
	id uint32
	loop.Request
}

func (e *engine) requestOf(r *loop.Request) *request {
	k := key(nil).text(r.Method).text(r.Target).text(r.ContentType).text(r.Accept).text(r.User)
	return e.requests.add(append(k, r.Body...), func(id uint32) *request { return &request{id, *r} })
}

// begin returns the run of an item.
func (e *engine) begin(i int, item Item, seen *view) *run {
	k := appendItem(key(nil).number(0).number(uint32(i)).number(seen.id), item)
	return e.runs.add(k, func(id uint32) *run { return &run{id: id, process: i, item: item, view: seen} })
}

// after returns the run after a response.
func (e *engine) after(r *run, response loop.Response) *run {
	k := key(nil).number(1).number(r.id).number(uint32(response.Code))
	if response.Err != nil {
		k = k.text(response.Err.Error())
	}
	return e.runs.add(append(k, response.Body...), func(id uint32) *run {
		return &run{id: id, process: r.process, item: r.item, view: r.view, before: r, exchange: loop.Exchange{Request: r.request.Request, Response: response}}
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
func (w *worker) next(r *run) *Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != nil {
		return r.step
	}
	w.computed.steps.Add(1)
	step := w.processes[r.process].Step(Run{Item: r.item, Cached: r.view.objects(), Exchanges: r.exchanges()})
	if step.Err != nil && w.err == nil {
		w.err = step.Err
	}
	if step.Request != nil {
		r.request = w.requestOf(step.Request)
	}
	r.step = &step
	return r.step
}

// result is what a request leads to.
type result struct {
	after    *stored
	response loop.Response
}

// do returns what a request leads to.
func (w *worker) do(at *stored, r *request) *result {
	at.mu.Lock()
	defer at.mu.Unlock()
	if known := at.done[r.id]; known != nil {
		return known
	}
	w.computed.requests.Add(1)
	after, response := w.Server.Do(at.raw(), r.Request)
	if at.done == nil {
		at.done = map[uint32]*result{}
	}
	at.done[r.id] = &result{w.storedFrom(after), response}
	return at.done[r.id]
}

// isFresh reports whether a run began with the newest specs of what users keep.
func (r *run) isFresh(at *stored, seeds map[*name]bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, known := r.fresh[at.id]
	if known {
		return fresh
	}
	fresh = true
	for n := range seeds {
		now, seen := at.get(n).version, r.view.get(n)
		fresh = fresh && (seen == nil || now != nil && seen.object.IntentDigest() == now.object.IntentDigest())
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
		if a := r.action(send, ""); x.wants(a) {
			done := x.do(x.from.stored, r.request)
			x.respond(r, a, done.after, done.response)
		}
		if r.request.Method == http.MethodGet || x.from.spent.faults >= x.most.faults {
			continue
		}
		for _, f := range failures {
			a, after := r.action(reject, f.name), x.from.stored
			if !x.wants(a) {
				continue
			}
			if f.lands {
				after = x.do(x.from.stored, r.request).after
			}
			if !f.lands || after != x.from.stored {
				x.respond(r, a, after, f.response)
			}
		}
	}
}

// action returns a step of a run.
func (r *run) action(kind actionKind, text string) action {
	return action{kind: kind, process: r.process, controller: r.item.Controller, key: r.item.Key, text: text}
}

// respond adds the step in which a run gets a response.
func (x *expansion) respond(r *run, a action, after *stored, response loop.Response) {
	d := x.draft(x.from)
	changed := x.changes(x.from.stored, after)
	e := effectOn(changed)
	e.own = len(changed) > 0
	e.fresh = e.own && r.isFresh(x.from.stored, x.seeds)
	if e.own && e.what == created {
		e.by = x.nameOf(r.item.Object)
	}
	if a.kind == reject {
		d.spent.faults++
		e.deviation, e.resets = true, true
	}
	d.store(after)
	x.add(a, d, e, d.goOn(r.process, r, x.after(r, response))...)
}

// endFindings returns what is wrong with the end of a run.
func endFindings(end *End) []finding {
	var all []finding
	if end.Panicked {
		all = append(all, finding{property: Valid, text: "the reconcile panics: " + end.Err.Error()})
		return all
	}
	if isRejection(end.Err) {
		all = append(all, finding{property: Valid, text: "the API server rejects a write: " + end.Err.Error()})
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

// requestOf returns the request of a step; nil if it is none.
func (s state) requestOf(a *Action) *request {
	if a.Step != send && a.Step != reject {
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
