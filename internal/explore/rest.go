package explore

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
)

// maxRequests bounds the requests of one reconcile at rest.
const maxRequests = 100

// onceMore reconciles an item of a state at rest. It looks at each request and what it leads to, until one changes something or
// the look says that it is enough. It returns the error of the run.
func (w *worker) onceMore(at state, process int, item Item, look func(*run, *result) (enough bool)) error {
	r := w.begin(process, item, at.processes.all[process].view)
	for range maxRequests {
		if end := w.next(r).End; end != nil {
			return end.Err
		}
		done := w.do(at.stored, r.request)
		if look(r, done) || done.after != at.stored {
			return nil
		}
		r = w.after(r, done.response)
	}
	return nil
}

// undesired reconciles everything once more. It returns what would be written, or the run that fails.
func (w *worker) undesired(at state) (wrote string, fails *Item, failure error) {
	for i, p := range at.processes.all {
		for _, item := range w.started(i, p.view) {
			failure = w.onceMore(at, i, item, func(r *run, done *result) bool {
				if done.after != at.stored {
					wrote = fmt.Sprintf("one more reconcile of %s writes: %s", item.Key,
						describeWrite(&r.request.Request, done.response, w.changes(at.stored, done.after)))
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

// heldByOutage reports whether a write of a reconcile of an object is refused because a right was revoked: that, and not the
// controller, keeps the object.
func (w *worker) heldByOutage(at state, n *name) bool {
	outages := outagesIn(at.stored.raw())
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
