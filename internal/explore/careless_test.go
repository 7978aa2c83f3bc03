package explore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// careless is a process that copies the text of a thing to a ConfigMap, as a controller may that Setpoint does not run.
type careless struct {
	// deaf ignores events.
	deaf bool
}

var copied = world.Item{Controller: "careless", Key: queue.Key{Namespace: "default", Name: "a"}, Object: things.Ref("default", "a").Identity()}

func (careless) Watches(*object.Object) bool          { return true }
func (careless) Start([]*object.Object) []world.Item  { return []world.Item{copied} }
func (careless) Merge(_, newer world.Item) world.Item { return newer }

func (careless) Observe([]*object.Object, []world.Event, world.Event) []world.Item { return nil }

func (c careless) Deliver(_ []*object.Object, _ []world.Event, event world.Event) []world.Item {
	if c.deaf || event.Object.Kind() != "Thing" {
		return nil
	}
	return []world.Item{copied}
}

// Step creates the ConfigMap, without an owner, or updates it.
func (careless) Step(run world.Run) world.Step {
	var from, to *object.Object
	for _, o := range run.Cached {
		switch o.Kind() {
		case "Thing":
			if o.Name() == "a" {
				from = o
			}
		case "ConfigMap":
			to = o
		}
	}
	if from == nil || len(run.Exchanges) > 0 {
		return world.Step{End: &world.End{}}
	}
	var parent thing
	if err := json.Unmarshal(from.JSON(), &parent); err != nil {
		return world.Step{Err: err}
	}
	const path = "/api/v1/namespaces/default/configmaps"
	request := loop.Request{Method: http.MethodPost, Target: path, ContentType: "application/json", Body: configMap("c", parent.Spec.Text)}
	switch {
	case to != nil && text(to.JSON()) == parent.Spec.Text:
		return world.Step{End: &world.End{}}
	case to != nil:
		request.Method, request.Target = http.MethodPut, path+"/c"
	}
	return world.Step{Request: &request}
}

// TestCarelessControllers plants mistakes that Setpoint does not let a hook make.
func TestCarelessControllers(t *testing.T) {
	const left = "ConfigMap default/c has no owner, and stays though Thing default/a is gone"
	other := []*object.Object{apiservertest.Parse(t, otherThing)}
	for _, test := range []struct {
		want    property.Property
		process careless
		beside  []*object.Object
		edit    world.Edit
		text    string
	}{
		{property.Owned, careless{}, nil, deletion(), left},
		{property.Owned, careless{}, other, deletion(), left}, // It is found while another object is still there.
		{
			property.Desired, careless{deaf: true}, nil, editOf("other text", map[string]any{"text": "y"}),
			"one more reconcile of default/a writes: update ConfigMap default/c",
		},
	} {
		options := system(t, numbered)
		options.Memo, options.Controller = nil, world.Controller{Name: "careless", Start: func() (world.Process, error) { return test.process, nil }}
		options.Objects = append(options.Objects, test.beside...)
		options.Edits, options.Bounds = []world.Edit{test.edit}, explore.Bounds{Edits: 1}
		options.Unchecked = []property.Property{property.SameEnd} // Both mistakes also make the end depend on the way.
		report := run(t, options)
		wantViolations(t, report, test.want)
		wantText(t, report.String(), test.text)
	}
}

// TestAFinalizerThatStays explores a finalize hook that never says that it is done.
func TestAFinalizerThatStays(t *testing.T) {
	program := programOf(numbered)
	program.Finalize, program.Finalizer = program.Sync, "example.com/things"
	options := systemOf(t.Context(), t, program)
	options.Edits, options.Bounds = []world.Edit{deletion()}, explore.Bounds{Edits: 1}
	report := run(t, options)
	wantViolations(t, report, property.Finalized)
	wantText(t, report.String(), "Thing default/a is being deleted for ever; its finalizers: example.com/things")
}

// scripted is a process of one item, which makes one request and ends.
type scripted struct {
	careless

	request func(cached []*object.Object) *loop.Request
	end     error
}

func (s scripted) Deliver([]*object.Object, []world.Event, world.Event) []world.Item {
	return nil
}

func (s scripted) Step(run world.Run) world.Step {
	if len(run.Exchanges) == 0 {
		if request := s.request(run.Cached); request != nil {
			return world.Step{Request: request}
		}
		return world.Step{End: &world.End{}}
	}
	step := world.Step{End: &world.End{Err: s.end}}
	if stored, err := object.Parse(run.Exchanges[0].Response.Body); err == nil && stored.Kind() == "ConfigMap" {
		step.Wrote = []world.Event{{Object: stored, Writer: "scripted"}}
	}
	return step
}

func (s scripted) explore(t *testing.T, bounds explore.Bounds, unchecked ...property.Property) *explore.Report {
	t.Helper()
	options := system(t, numbered)
	options.Memo, options.Controller = nil, world.Controller{Name: "scripted", Start: func() (world.Process, error) { return s, nil }}
	options.Bounds, options.Unchecked = bounds, unchecked
	return run(t, options)
}

const configMapsPath = "/api/v1/namespaces/default/configmaps"

// TestAnIdleProcessMayCrash explores a process that changes its own write when it starts again. Once the write is made,
// nothing is in flight.
func TestAnIdleProcessMayCrash(t *testing.T) {
	s := scripted{request: func(cached []*object.Object) *loop.Request {
		if !slices.ContainsFunc(cached, func(o *object.Object) bool { return o.Kind() == "ConfigMap" }) {
			return &loop.Request{Method: http.MethodPost, Target: configMapsPath, ContentType: "application/json", Body: configMap("c", "first")}
		}
		return &loop.Request{Method: http.MethodPut, Target: configMapsPath + "/c", ContentType: "application/json", Body: configMap("c", "second")}
	}}
	report := s.explore(t, explore.Bounds{Crashes: 1}, property.Desired)
	if !slices.ContainsFunc(report.Violations, func(v counterexample.Story) bool { return v.Property == property.SameEnd }) {
		t.Errorf("a crash after the write was not explored: %s", report.String())
	}
}

// TestARefusedUpdateThatIsHandledIsValid explores a process that handles a refusal, and then fails because of a conflict.
func TestARefusedUpdateThatIsHandledIsValid(t *testing.T) {
	refused := func([]*object.Object) *loop.Request {
		return &loop.Request{Method: http.MethodPost, Target: configMapsPath, ContentType: "application/json", Body: configMap("not a name", "")}
	}
	invalid := fmt.Errorf("apply: %w", errors.Join(errConflict, apierrors.NewBadRequest("not a name")))
	wantViolations(t, scripted{request: refused, end: errConflict}.explore(t, explore.Bounds{}), property.Reconciled)
	wantViolations(t, scripted{request: refused, end: invalid}.explore(t, explore.Bounds{}), property.Valid)
}

var errConflict = errors.New("an object changed meanwhile")

// overtaking is a process whose writes have no resource version, so that they succeed after another client's.
type overtaking struct {
	careless

	// noticed is set when an event arrives that an own write has overtaken.
	noticed *bool
}

func (o overtaking) Step(run world.Run) world.Step {
	if len(run.Exchanges) == 0 {
		return world.Step{Request: &loop.Request{
			Method: http.MethodPatch, Target: "/apis/example.com/v1/namespaces/default/things/a",
			ContentType: "application/merge-patch+json", Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		}}
	}
	step := world.Step{End: &world.End{}}
	if stored, err := object.Parse(run.Exchanges[0].Response.Body); err == nil && stored.Kind() == "Thing" {
		step.Wrote = []world.Event{{Object: stored, Writer: "overtaking"}}
	}
	return step
}

func (o overtaking) Deliver(_ []*object.Object, own []world.Event, event world.Event) []world.Item {
	if len(own) == 0 || own[0].Object.Version() == event.Object.Version() {
		return nil
	}
	if own[0].Writer == "overtaking" && own[0].Object.Version() > event.Object.Version() {
		*o.noticed = true
	}
	return []world.Item{copied}
}

// TestOvertakenEventsArrive shows that the event of another client's change arrives after an own write that has overtaken
// it, and that the process decides then.
func TestOvertakenEventsArrive(t *testing.T) {
	noticed := false
	options := system(t, numbered)
	options.Memo, options.Controller = nil, world.Controller{Name: "careless", Start: func() (world.Process, error) { return overtaking{noticed: &noticed}, nil }}
	options.Edits, options.Bounds = []world.Edit{editOf("other text", map[string]any{"text": "y"})}, explore.Bounds{Edits: 1}
	options.Workers = 1
	wantViolations(t, run(t, options))
	if !noticed {
		t.Error("no event came that an own write had overtaken")
	}
}

// listener is a process that notes the orders in which events of objects reach its cache, and does nothing.
type listener struct{ orders map[string]bool }

func (*listener) Watches(o *object.Object) bool        { return o.Kind() == "ConfigMap" || o.Kind() == "Pod" }
func (*listener) Start([]*object.Object) []world.Item  { return nil }
func (*listener) Merge(_, newer world.Item) world.Item { return newer }
func (*listener) Step(world.Run) world.Step            { return world.Step{End: &world.End{}} }

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
	server  *world.Server
	objects []*object.Object
}

func (c creating) Moves(stored *apiserver.State) []apiserver.Change {
	var moves []apiserver.Change
	for _, o := range c.objects {
		if stored.At(o.Ref()).Object != nil {
			continue
		}
		after, err := c.server.Edit(stored, world.Edit{Object: o.Ref(), Create: world.Manifest{Object: o}})
		if err == nil {
			moves = append(moves, apiserver.Change{Name: "is created", Object: o.Ref().Identity(), State: after})
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
	options.Memo, options.Controller = nil, world.Controller{Name: "listener", Start: func() (world.Process, error) { return l, nil }}
	options.Workers, options.Unchecked = 1, property.Properties
	pod := apiservertest.Parse(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	configMapOf := func(name string) *object.Object {
		return apiservertest.Parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","namespace":"default"}}`)
	}
	options.Environment = creating{options.Server, []*object.Object{pod, configMapOf("b"), configMapOf("a")}}.Moves
	run(t, options)
	// The last name is that of the event; those before it are what the cache has.
	want := "a b p, b, b a, b p, b p a, p, p b"
	if got := strings.Join(slices.Sorted(maps.Keys(l.orders)), ", "); got != want {
		t.Errorf("events: %s, want %s", got, want)
	}
}
