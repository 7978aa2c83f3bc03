package explore

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// outagesIn are those that are stored.
func outagesIn(stored Stored) []loop.Outage {
	var all []loop.Outage
	for i := range stored {
		if one, is := loop.OutageOf(stored[i].Object); is {
			all = append(all, one)
		}
	}
	return all
}

// refusal returns the response to a request that an outage refuses; nil if none does.
func refusal(stored Stored, r *Request) *Response {
	for _, one := range outagesIn(stored) {
		code := one.Refusal(r)
		if code == 0 {
			continue
		}
		status := metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
			Reason: map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound,
				http.StatusForbidden: metav1.StatusReasonForbidden}[code],
			Message: one.String(),
		}
		if code == http.StatusNotFound {
			status.Message = "the server could not find the requested resource"
		}
		body, err := json.Marshal(status)
		return &Response{Status: code, Body: body, Err: err}
	}
	return nil
}

// withoutKind returns a state without the objects of a kind, if an edit ends that it is served. The API server deletes them
// before, and serves the kind until they are gone.
func (s *inMemory) withoutKind(state *apiserver.State, begins *object.Object) (without *apiserver.State, held bool, err error) {
	outage, is := loop.OutageOf(begins)
	if !is || outage.What != loop.Unserved {
		return state, false, nil
	}
	for resource, o := range state.All() {
		if resource.GroupKind() != outage.Of.GroupKind() {
			continue
		}
		now := int64(0)
		after, _, err := s.As(editor).Send(state, apiserver.DeletionOf(resource, o, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		if err != nil {
			return nil, false, err
		}
		state = after
		held = held || state.Get(resource, o.Namespace(), o.Name()) != nil
	}
	return state, held, nil
}

// heldByOutage reports whether a write of a reconcile of an object is refused because a right was revoked: that, and not the
// controller, keeps the object.
func (s *search) heldByOutage(at state, n *name) bool {
	outages := outagesIn(at.stored.raw())
	if len(outages) == 0 {
		return false
	}
	w := s.workers[0]
	for i, p := range at.processes.all {
		for _, item := range w.started(i, p.view) {
			if w.nameOf(item.Object) == n && s.isRefused(w, w.begin(i, item, p.view), at.stored, outages) {
				return true
			}
		}
	}
	return false
}

// isRefused reports whether a right is missing for a request of a run.
func (s *search) isRefused(w *worker, r *run, at *stored, outages []loop.Outage) bool {
	for range maxRequests {
		if w.next(r).End != nil {
			return false
		}
		for _, one := range outages {
			if one.Refusal(&r.request.Request) == http.StatusForbidden {
				return true
			}
		}
		done := w.do(at, r.request)
		if done.after != at {
			return false
		}
		r = w.after(r, done.response)
	}
	return false
}

func isOutage(n *name) bool { return n.ref.GroupKind() == loop.OutageResource.GroupKind() }
