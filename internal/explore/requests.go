package explore

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// failures are how a request fails that a run sends.
var failures = []struct {
	name string
	// lands is set if the API server has handled the request all the same.
	lands    bool
	response Response
}{
	{"409 Conflict: another client has changed the object", false, failed(http.StatusConflict, "Conflict", "the object has been modified; please apply your changes to the latest version and try again")},
	{"500 Internal Server Error", false, failed(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")},
	{"the connection ends before the response, but the request was handled", true, Response{Err: errors.New("read tcp: connection reset by peer")}},
}

func failed(status int, reason, message string) Response {
	return Response{Status: status, Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, status)}
}

// requests are the steps in which the API server handles the next requests of runs, or fails them.
func (x *expansion) requests(i int) {
	for _, r := range x.from.processes.all[i].runs {
		done := x.do(x.from.stored, r.request)
		x.respond(i, r, action{kind: send}, done.after, done.response)
		if r.request.Method == http.MethodGet || int(x.from.spent.faults) >= x.options.Bounds.Faults {
			continue
		}
		for _, f := range failures {
			after := x.from.stored
			if f.lands {
				after = done.after
			}
			if !f.lands || after != x.from.stored {
				x.respond(i, r, action{kind: reject, text: f.name}, after, f.response)
			}
		}
	}
}

// respond adds the step in which a run gets a response.
func (x *expansion) respond(i int, r *run, a action, after *stored, response Response) {
	d := x.draft(x.from)
	changed := changes(x.engine, x.from.stored, after)
	e := effectOn(changed)
	e.own = len(changed) > 0
	e.fresh = e.own && r.isFresh(x.from.stored, x.seeds)
	if a.kind == reject {
		d.spent.faults++
		e.deviation, e.resets = true, true
	}
	d.store(after)
	a.process, a.controller, a.key = i, r.item.Controller, r.item.Key
	x.add(a, d, e, d.goOn(i, r, x.after(r, response))...)
}

// endFindings returns what is wrong with the end of a run.
func endFindings(r *run, end *End) []finding {
	var all []finding
	if end.Panicked {
		all = append(all, finding{property: Valid, text: "the reconcile panics: " + end.Err.Error()})
		return all
	}
	invalid := func(e Exchange) bool { return slices.Contains(invalidStatuses, e.Response.Status) }
	if exchanges := r.exchanges(); end.Err != nil && slices.ContainsFunc(exchanges, invalid) {
		all = append(all, finding{property: Valid, text: "the API server rejects a write: " + end.Err.Error()})
	}
	return all
}

// invalidStatuses are those of requests that cannot succeed whatever the state.
var invalidStatuses = []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed}
