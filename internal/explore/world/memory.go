package world

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Server is an API server in memory whose state is a value. Its methods are safe for concurrent use.
type Server struct{ *apiserver.Server }

// Do handles a request. Objects that it does not change stay as they are.
func (s *Server) Do(state *apiserver.State, request loop.Request) (*apiserver.State, loop.Response) {
	r, err := request.HTTP()
	if err != nil {
		return state, loop.Response{Err: err}
	}
	if refused := refusal(state, &request); refused != nil {
		return state, *refused
	}
	after, raw := s.Server.Do(state, r) //nolint:bodyclose // NewResponse closes it.
	response, err := loop.NewResponse(raw)
	if err != nil {
		return state, loop.Response{Err: err}
	}
	return after, response
}

// Edit makes a change that another client requests. An edit that changes nothing, or that the server refuses, returns an
// error.
func (s *Server) Edit(state *apiserver.State, edit Edit) (*apiserver.State, error) {
	resource, served := s.Resource(edit.Object.GroupKind())
	if !served {
		return nil, fmt.Errorf("the kind %s is not known: add its CustomResourceDefinition", edit.Object.Kind.Kind)
	}
	before, held, err := s.withoutKind(state, edit.Create.Object)
	switch {
	case err != nil:
		return nil, err
	case held && before == state:
		return nil, ErrUnchanged
	case held:
		return before, nil
	}
	request, changes := RequestOf(resource, before.At(edit.Object).Object, edit)
	if !changes {
		return nil, ErrUnchanged
	}
	after, _, err := s.Send(before, Editor, request)
	if err == nil && after == before {
		err = ErrUnchanged
	}
	return after, err
}

// Path is that of the requests for an object.
func (s *Server) Path(ref object.Ref) string {
	resource, _ := s.Resource(ref.GroupKind())
	return resource.Path(ref.Namespace, ref.Name)
}

// refusal returns the response to a request that an outage refuses; nil if none does.
func refusal(state *apiserver.State, r *loop.Request) *loop.Response {
	for _, one := range loop.OutagesAmong(state.Objects()) {
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
		return &loop.Response{Code: code, Body: body, Err: err}
	}
	return nil
}

// withoutKind returns a state without the objects of a kind, if an edit ends that it is served. The API server deletes them
// before, and serves the kind until they are gone.
func (s *Server) withoutKind(state *apiserver.State, begins *object.Object) (without *apiserver.State, held bool, err error) {
	outage, is := loop.OutageOf(begins)
	if !is || outage.What != loop.Unserved {
		return state, false, nil
	}
	for o := range state.Objects() {
		if o.GroupKind() != outage.Of.GroupKind() {
			continue
		}
		resource, _ := s.Resource(o.GroupKind())
		now := int64(0)
		after, _, err := s.Send(state, Editor, apiserver.DeletionOf(resource, o, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		if err != nil {
			return nil, false, err
		}
		state = after
		held = held || state.Get(resource, o.Namespace(), o.Name()) != nil
	}
	return state, held, nil
}
