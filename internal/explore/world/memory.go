package world

import (
	"encoding/json"
	"fmt"
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
	s := &inMemory{server, environment}
	return s, s
}

// inMemory is an API server in memory, and with what follows by itself an Environment too.
type inMemory struct {
	*apiserver.Server

	next []Next
}

// state returns what is stored as a state of the server.
func (s *inMemory) state(stored Stored) *apiserver.State {
	if len(stored) == 0 { // A group of objects that only an edit creates begins without any.
		return s.Empty()
	}
	return s.Restore(slices.Values(stored))
}

// stored is the reverse of state.
func (s *inMemory) stored(state *apiserver.State) Stored {
	return slices.SortedFunc(state.Slots(), func(a, b apiserver.Slot) int { return CompareRefs(a.Ref, b.Ref) })
}

// Do implements Server.
func (s *inMemory) Do(stored Stored, request loop.Request) (Stored, loop.Response) {
	r, err := request.HTTP()
	if err != nil {
		return stored, loop.Response{Err: err}
	}
	if refused := refusal(stored, &request); refused != nil {
		return stored, *refused
	}
	before := s.state(stored)
	after, raw := s.Server.Do(before, r) //nolint:bodyclose // NewResponse closes it.
	response, err := loop.NewResponse(raw)
	if err != nil {
		return stored, loop.Response{Err: err}
	}
	if after == before {
		return stored, response
	}
	return s.stored(after), response
}

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
		return nil, ErrUnchanged
	case held:
		return s.stored(before), nil
	}
	request, changes := RequestOf(resource, before.Get(resource, edit.Object.Namespace, edit.Object.Name), edit)
	if !changes {
		return nil, ErrUnchanged
	}
	after, _, err := s.As(Editor).Send(before, request)
	if err == nil && after == before {
		err = ErrUnchanged
	}
	if err != nil {
		return nil, err
	}
	return s.stored(after), nil
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
		moves[i] = Move{Name: what, Object: ref.Identity(), After: s.stored(c.State), Fault: c.Failure}
	}
	return moves
}

// Moves implements Environment.
func (s *inMemory) Moves(stored Stored) []Move {
	state := s.state(stored)
	var all []Move
	for _, next := range s.next {
		all = append(all, s.moves(next(state))...)
	}
	return all
}

// OutagesIn are those that are stored.
func OutagesIn(stored Stored) []loop.Outage {
	var all []loop.Outage
	for i := range stored {
		if one, is := loop.OutageOf(stored[i].Object); is {
			all = append(all, one)
		}
	}
	return all
}

// refusal returns the response to a request that an outage refuses; nil if none does.
func refusal(stored Stored, r *loop.Request) *loop.Response {
	for _, one := range OutagesIn(stored) {
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
		after, _, err := s.As(Editor).Send(state, apiserver.DeletionOf(resource, o, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		if err != nil {
			return nil, false, err
		}
		state = after
		held = held || state.Get(resource, o.Namespace(), o.Name()) != nil
	}
	return state, held, nil
}
