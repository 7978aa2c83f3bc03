package explore

import (
	"errors"
	"fmt"
	"iter"
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
	if stored == nil {
		return s.Empty()
	}
	return s.Restore(func(yield func(apiserver.Slot) bool) {
		for _, one := range stored {
			if !yield(apiserver.Slot{
				Kind: one.Ref.GroupKind(), Namespace: one.Ref.Namespace, Name: one.Ref.Name, Object: one.Object, Born: one.Born, Written: one.Written,
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
	before := s.state(stored)
	after, err := s.edited(before, resource, edit)
	if err != nil {
		return nil, err
	}
	if after == before {
		return nil, errUnchanged
	}
	return s.stored(after), nil
}

func (s *inMemory) edited(before *apiserver.State, resource object.Resource, edit Edit) (*apiserver.State, error) {
	user := s.As("kubectl")
	if edit.Create != nil {
		after, _, err := user.Create(before, resource, edit.Create)
		return after, err
	}
	o := before.Get(resource, edit.Object.Namespace, edit.Object.Name)
	switch {
	case o == nil || o.Deleting() && edit.Delete:
		return before, nil
	case edit.Delete:
		background := metav1.DeletePropagationBackground
		after, _, err := user.Delete(before, resource, o, metav1.DeleteOptions{PropagationPolicy: &background})
		return after, err
	}
	subresource := ""
	if _, status := edit.Patch["status"]; status && len(edit.Patch) == 1 && resource.Status {
		subresource = "status"
	}
	after, _, err := user.Patch(before, resource, o, subresource, edit.Patch)
	return after, err
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
func objectsBy(resourceOf func(object.GroupKind) (object.Resource, bool), objects []*object.Object) iter.Seq2[object.Resource, *object.Object] {
	return func(yield func(object.Resource, *object.Object) bool) {
		for _, o := range objects {
			if resource, known := resourceOf(o.GroupKind()); known && !yield(resource, o) {
				return
			}
		}
	}
}
