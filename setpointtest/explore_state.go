package setpointtest

import (
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// State is what is stored at one time.
type State struct {
	app      *setpoint.App
	objects  []*object.Object
	external json.RawMessage
}

// List returns the stored objects of the kind of T, sorted by namespace and name.
func List[T any](s *State) []*T {
	kind, err := sdk.Of(s.app).KindOf(new(T))
	if err != nil {
		panic(err) // The invariant is wrong, in every state.
	}
	var all []*T
	for _, o := range s.objects {
		if o.APIVersion() != kind.APIVersion || o.Kind() != kind.Name {
			continue
		}
		into := new(T)
		if err := json.Unmarshal(o.JSON(), into); err != nil {
			panic(fmt.Errorf("read %s as %T: %w", o.Ref(), into, err))
		}
		all = append(all, into)
	}
	return all
}

// Get returns the stored object of the kind of T with a name; nil if there is none. The namespace of cluster-scoped
// objects is empty.
func Get[T any](s *State, namespace, name string) *T {
	for _, o := range s.objects {
		if o.Namespace() != namespace || o.Name() != name {
			continue
		}
		one := &State{app: s.app, objects: []*object.Object{o}}
		if found := List[T](one); len(found) > 0 {
			return found[0]
		}
	}
	return nil
}

func stateOf(objects []json.RawMessage) (*State, error) {
	s := &State{}
	for _, text := range objects {
		o, err := object.Parse(text)
		if err != nil {
			return nil, err
		}
		if o.GroupKind() == loop.ExternalKind.GroupKind() {
			s.external = o.Field("state")
			continue
		}
		s.objects = append(s.objects, o)
	}
	return s, nil
}
