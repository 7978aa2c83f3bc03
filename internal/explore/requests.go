package explore

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// failures are how a request fails that a run sends.
var failures = []struct {
	name string
	// lands is set if the API server has handled the request all the same.
	lands    bool
	response Response
}{
	{"409 Conflict: another client has changed the object", false, failed(http.StatusConflict, "Conflict",
		"the object has been modified; please apply your changes to the latest version and try again")},
	{"500 Internal Server Error", false, failed(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")},
	{"the connection ends before the response, but the request was handled", true,
		Response{Err: errors.New("read tcp: connection reset by peer")}},
}

func failed(status int, reason, message string) Response {
	return Response{Status: status, Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, status)}
}

// requests are the steps in which the API server handles the next requests of runs, or fails them.
func (x *expansion) requests(i int) {
	for _, r := range x.from.processes.all[i].runs {
		if a := r.action(send, ""); x.wants(a) {
			done := x.do(x.from.stored, r.request)
			x.respond(r, a, done.after, done.response)
		}
		if r.request.Method == http.MethodGet || int(x.from.spent.faults) >= x.options.Bounds.Faults {
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
func (x *expansion) respond(r *run, a action, after *stored, response Response) {
	d := x.draft(x.from)
	changed := changes(x.engine, x.from.stored, after)
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
