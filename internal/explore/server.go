package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Next returns what may follow a state of an API server in memory.
type Next func(*apiserver.State) []apiserver.Change

// InMemory returns an API server in memory, and the environment with what it may do.
func InMemory(server *apiserver.Server, environment ...Next) (Server, Environment) {
	s := &inMemory{server}
	return s, &inMemoryEnvironment{s, environment}
}

type inMemory struct{ *apiserver.Server }

// state returns what is stored as a state of the server.
func (s *inMemory) state(stored Stored) *apiserver.State {
	if len(stored) == 0 { // A group of objects that only an edit creates begins without any.
		return s.Empty()
	}
	return s.Restore(func(yield func(apiserver.Slot) bool) {
		for _, one := range stored {
			if !yield(apiserver.Slot{
				Kind: one.Ref.GroupKind(), Namespace: one.Ref.Namespace, Name: one.Ref.Name, Object: one.Object, Born: one.Born,
				Written: one.Written,
			}) {
				return
			}
		}
	})
}

// stored is the reverse of state.
func (s *inMemory) stored(state *apiserver.State) Stored {
	var all Stored
	for one := range state.Slots() {
		ref := object.Ref{Kind: object.Kind{Group: one.Kind.Group, Kind: one.Kind.Kind}, Namespace: one.Namespace, Name: one.Name}
		all = append(all, Slot{Ref: ref, Object: one.Object, Born: one.Born, Written: one.Written})
	}
	slices.SortFunc(all, func(a, b Slot) int { return compareRefs(a.Ref, b.Ref) })
	return all
}

// Do implements Server.
func (s *inMemory) Do(stored Stored, request Request) (Stored, Response) {
	r, err := request.HTTP()
	if err != nil {
		return stored, Response{Err: err}
	}
	if refused := refusal(stored, &request); refused != nil {
		return stored, *refused
	}
	before := s.state(stored)
	after, raw := s.Server.Do(before, r) //nolint:bodyclose // NewResponse closes it.
	response, err := loop.NewResponse(raw)
	if err != nil {
		return stored, Response{Err: err}
	}
	if after == before {
		return stored, Response{Status: response.Code, Body: response.Body}
	}
	return s.stored(after), Response{Status: response.Code, Body: response.Body}
}

// errUnchanged is the error of an edit that has nothing to change.
var errUnchanged = errors.New("there is nothing to change")

// Edit implements Server.
func (s *inMemory) Edit(stored Stored, edit Edit) (Stored, error) {
	resource, served := s.Resource(edit.Object.GroupKind())
	if !served {
		return nil, fmt.Errorf("the kind %s is not known: add its CustomResourceDefinition", edit.Object.Kind.Kind)
	}
	now := s.state(stored)
	before, held, err := s.withoutKind(now, edit.Create)
	switch {
	case err != nil:
		return nil, err
	case held && before == now:
		return nil, errUnchanged
	case held:
		return s.stored(before), nil
	}
	request, changes := requestOf(resource, before.Get(resource, edit.Object.Namespace, edit.Object.Name), edit)
	if !changes {
		return nil, errUnchanged
	}
	after, _, err := s.As(editor).Send(before, request)
	if err == nil && after == before {
		err = errUnchanged
	}
	if err != nil {
		return nil, err
	}
	return s.stored(after), nil
}

// editor is the field manager of edits.
const editor = "kubectl"

// requestOf returns the request of an edit, and whether there is something to change. The object is nil if there is
// none.
func requestOf(resource object.Resource, o *object.Object, edit Edit) (request apiserver.Request, changes bool) {
	switch {
	case edit.Create != nil:
		request = apiserver.CreationOf(resource, edit.Create)
		request.Strict = true
		return request, true
	case o == nil || o.Deleting() && edit.Delete:
		return apiserver.Request{}, false
	case edit.Delete:
		background := metav1.DeletePropagationBackground
		return apiserver.DeletionOf(resource, o, metav1.DeleteOptions{PropagationPolicy: &background}), true
	}
	subresource := ""
	if _, status := edit.Patch["status"]; status && len(edit.Patch) == 1 && resource.Status {
		subresource = "status"
	}
	request = apiserver.PatchOf(resource, o, subresource, edit.Patch)
	request.Strict = true // A misspelled field is a mistake, not an edit that changes nothing.
	return request, true
}

// Path implements Server.
func (s *inMemory) Path(ref object.Ref) string {
	resource, _ := s.Resource(ref.GroupKind())
	return resource.Path(ref.Namespace, ref.Name)
}

// Collect implements Server.
func (s *inMemory) Collect(stored Stored) []Move { return s.moves(s.Server.Collect(s.state(stored))) }

func (s *inMemory) moves(all []apiserver.Change) []Move {
	moves := make([]Move, len(all))
	for i, c := range all {
		ref := c.Object.Ref()
		what := strings.TrimPrefix(c.What, ref.String()+" ")
		moves[i] = Move{Name: what, Object: ref.Identity(), After: s.stored(c.State), Writes: c.Writes, Manager: c.Manager,
			Fault: c.Failure}
	}
	return moves
}

type inMemoryEnvironment struct {
	server *inMemory
	next   []Next
}

// Moves implements Environment.
func (e *inMemoryEnvironment) Moves(stored Stored) []Move {
	state := e.server.state(stored)
	var all []Move
	for _, next := range e.next {
		all = append(all, e.server.moves(next(state))...)
	}
	return all
}

// objectsBy pairs objects with their resources.
func objectsBy(resourceOf func(object.GroupKind) (object.Resource, bool),
	objects []*object.Object) iter.Seq2[object.Resource, *object.Object] {
	return func(yield func(object.Resource, *object.Object) bool) {
		for _, o := range objects {
			if resource, known := resourceOf(o.GroupKind()); known && !yield(resource, o) {
				return
			}
		}
	}
}

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
