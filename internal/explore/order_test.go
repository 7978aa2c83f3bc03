package explore_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// listener is a process that notes the orders in which events of objects reach its cache, and does nothing.
type listener struct{ orders map[string]bool }

func (*listener) Watches(o *object.Object) bool       { return o.Kind() == "ConfigMap" || o.Kind() == "Pod" }
func (*listener) Start([]*object.Object) []world.Item { return nil }
func (*listener) Merge(_, newer world.Item) world.Item {
	return newer
}
func (*listener) Step(world.Run) world.Step { return world.Step{End: &world.End{}} }

func (*listener) Observe([]*object.Object, []world.Event, world.Event) []world.Item { return nil }

func (l *listener) Deliver(seen []*object.Object, _ []world.Event, event world.Event) []world.Item {
	var before []string
	for _, o := range seen {
		before = append(before, o.Name())
	}
	l.orders[strings.Join(append(before, event.Object.Name()), " ")] = true
	return nil
}

// creating is an environment that creates ConfigMaps b and a, in this order, and a pod.
type creating struct {
	server  world.Server
	objects []*object.Object
}

func (c creating) Moves(stored world.Stored) []world.Move {
	var moves []world.Move
	for _, o := range c.objects {
		exists := func(slot apiserver.Slot) bool { return slot.Ref == o.Ref().Identity() && slot.Object != nil }
		if slices.ContainsFunc(stored, exists) {
			continue
		}
		after, err := c.server.Edit(stored, world.Edit{Object: o.Ref(), Create: o})
		if err == nil {
			moves = append(moves, world.Move{Name: "is created", Object: o.Ref().Identity(), After: after})
		}
		if o.Kind() == "ConfigMap" {
			break
		}
	}
	return moves
}

// TestTheOrderOfEvents shows that events of one kind arrive in the order in which they happened, and those of two kinds
// in any order.
func TestTheOrderOfEvents(t *testing.T) {
	l := &listener{orders: map[string]bool{}}
	options := system(t, numbered)
	options.Memo, options.Controllers = nil, []world.Controller{{Name: "listener", Start: func() (world.Process, error) { return l, nil }}}
	options.Workers, options.Unchecked = 1, property.Properties
	pod := apiservertest.Parse(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	configMapOf := func(name string) *object.Object {
		return apiservertest.Parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","namespace":"default"}}`)
	}
	options.Environment = creating{options.Server, []*object.Object{pod, configMapOf("b"), configMapOf("a")}}
	run(t, options)
	// The last name is that of the event; those before it are what the cache has.
	want := "a b p, b, b a, b p, b p a, p, p b"
	if got := strings.Join(slices.Sorted(maps.Keys(l.orders)), ", "); got != want {
		t.Errorf("events: %s, want %s", got, want)
	}
}
