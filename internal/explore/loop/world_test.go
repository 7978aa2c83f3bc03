package loop_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

var (
	configMaps = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	pods       = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}
)

// world is an API server, one process, and what is between them.
type world struct {
	t       testing.TB
	server  *apiserver.Server
	state   *apiserver.State
	process *loop.Process
	view    *loop.View
	// events are on their way, items are queued.
	events []loop.Event
	items  []loop.Item
	// trace has a line for each request.
	trace []string
	// respond may replace the response to a request; landed says whether it is handled anyway.
	respond func(request *loop.Request) (response loop.Response, landed, replaced bool)
	// crashAfter is after how many writes the process ends; 0 for never. stale keeps what was seen then.
	crashAfter int
	stale      bool
	// ended receives how runs ended.
	ended func(*loop.End)
	// environment changes what is stored when all is quiet; false for nothing to do.
	environment func() bool
}

// newWorld starts a process in a world with these objects.
func newWorld(t testing.TB, server *apiserver.Server, programs loop.Programs, options loop.Options, objects ...string) *world {
	t.Helper()
	p := must.Get(loop.NewProcess(programs, options)).In(t)
	w := &world{t: t, server: server, state: server.Empty(), process: p, view: &loop.View{}}
	for _, text := range objects {
		w.create(text)
	}
	w.restart()
	return w
}

func newServer(t testing.TB, kinds []object.Resource, crds ...*object.Object) *apiserver.Server {
	t.Helper()
	options := apiserver.Options{Kinds: kinds}
	for _, crd := range crds {
		options.CRDs = append(options.CRDs, crd.JSON())
	}
	return must.Get(apiserver.New(options)).In(t)
}

// set makes a state the present one and sends its events.
func (w *world) set(state *apiserver.State) {
	w.events = append(w.events, eventsBetween(w.server, w.state, state)...)
	w.state = state
}

// eventsBetween are the events of the difference between two states.
func eventsBetween(server *apiserver.Server, before, after *apiserver.State) (events []loop.Event) {
	for _, at := range after.Entries {
		e := loop.Event{Object: at.Object, Deleted: at.Object == nil}
		e.Resource, _ = server.Resource(at.Ref.GroupKind())
		was := before.At(at.Ref).Object
		if e.Deleted {
			e.Object = was
		}
		if was != at.Object {
			events = append(events, e)
		}
	}
	return events
}

func (w *world) create(text string) {
	w.t.Helper()
	o := parse(w.t, text)
	resource, known := w.server.Resource(o.GroupKind())
	if !known {
		w.t.Fatalf("%s: no such kind", o.Ref())
	}
	w.send(apiserver.CreationOf(resource, o))
}

// send sends a request of a user.
func (w *world) send(r apiserver.Request) {
	w.t.Helper()
	state, _, err := w.server.Send(w.state, "kubectl", r)
	must.Succeed(w.t, err)
	w.set(state)
}

func (w *world) patch(resource object.Resource, name, subresource string, patch map[string]any) {
	w.t.Helper()
	w.send(apiserver.PatchOf(resource, w.state.Get(resource, "default", name), subresource, patch))
}

// restart starts the process with a list of what is stored.
func (w *world) restart() {
	w.view, w.events = loop.NewView(slices.Collect(w.state.Objects()), w.server.Resource), nil
	w.items = w.process.Start(w.view)
}

func (w *world) add(items ...loop.Item) {
	for _, item := range items {
		if i := slices.IndexFunc(w.items, func(o loop.Item) bool { return o.Program == item.Program && o.Key == item.Key }); i >= 0 {
			w.items[i] = w.items[i].Merge(item)
			continue
		}
		w.items = append(w.items, item)
	}
}

func (w *world) deliver() {
	e := w.events[0]
	w.events = w.events[1:]
	items := w.process.Deliver(w.t.Context(), w.view, e)
	w.view = w.view.Received(e)
	w.add(items...)
}

// settle runs until nothing happens any more.
func (w *world) settle() {
	w.t.Helper()
	for range 400 {
		switch {
		case len(w.events) > 0:
			w.deliver()
		case len(w.items) > 0:
			item := w.items[0]
			w.items = w.items[1:]
			w.run(item)
		case w.collect():
		case w.environment != nil && w.environment():
		default:
			return
		}
	}
	w.t.Fatalf("it does not come to rest:\n%s", strings.Join(w.trace[max(0, len(w.trace)-40):], "\n"))
}

func (w *world) collect() bool {
	changes := w.server.Collect(w.state)
	if len(changes) == 0 {
		return false
	}
	w.trace = append(w.trace, changes[0].Object.String()+" "+changes[0].Name)
	w.set(changes[0].State)
	return true
}

// run runs an item to its end, or to the end of the process.
func (w *world) run(item loop.Item) {
	w.t.Helper()
	run := loop.Run{Item: item, View: w.view}
	for range 100 {
		step := w.process.Step(w.t.Context(), run)
		if step.Err != nil {
			w.t.Fatal(step.Err)
		}
		w.view = w.view.Observe(step.Writes...)
		w.add(step.Queued...)
		if step.End != nil {
			w.end(item, step.End)
			return
		}
		exchange := loop.Exchange{Request: *step.Request, Response: w.do(step.Request)}
		if w.crashed(step.Request) {
			return
		}
		run.Exchanges = append(run.Exchanges, exchange)
	}
	w.t.Fatalf("%s: a run with 100 requests", item.Key)
}

func (w *world) end(item loop.Item, end *loop.End) {
	w.t.Helper()
	if end.Panicked {
		w.t.Fatal(end.Err)
	}
	if w.ended != nil {
		w.ended(end)
	}
	if end.Outcome != queue.NoRequeue() {
		w.add(item.Retry(queue.Retrying))
	}
	if end.Requeue.Cause.Kind == queue.RequeueAfter {
		w.add(item.Retry(queue.RequeueAfter))
	}
}

// do sends a request to the server.
func (w *world) do(request *loop.Request) loop.Response {
	w.t.Helper()
	landed, replaced := true, false
	var instead loop.Response
	if w.respond != nil {
		instead, landed, replaced = w.respond(request)
	}
	response := instead
	if landed {
		state, received := w.server.Do(w.state, must.Get(request.HTTP()).In(w.t)) //nolint:bodyclose // NewResponse closes it.
		response = must.Get(loop.NewResponse(received)).In(w.t)
		w.set(state)
	}
	if replaced {
		response = instead
	}
	target, _, _ := strings.Cut(request.Target, "?")
	w.trace = append(w.trace, fmt.Sprintf("%s %s %d", request.Method, target, response.Code))
	if response.Code >= 500 && !replaced || response.Code == 422 || response.Code == 400 {
		w.t.Fatalf("%s %s: %s", request, request.Body, response.Body)
	}
	return response
}

// crashed ends the process if it is time.
func (w *world) crashed(request *loop.Request) bool {
	if w.crashAfter == 0 || request.Method == http.MethodGet {
		return false
	}
	w.crashAfter--
	if w.crashAfter > 0 {
		return false
	}
	if w.stale {
		// The list is as old as the last event that was delivered.
		w.view = w.view.Restarted()
		w.items = w.process.Start(w.view)
		return true
	}
	w.restart()
	return true
}

// objects describes what is stored of a kind.
func (w *world) objects(resource object.Resource, path ...string) string {
	var all []string
	for o := range w.state.Objects() {
		if o.GroupKind() == resource.GroupKind() {
			all = append(all, o.Name()+"="+string(o.Field(path...)))
		}
	}
	return strings.Join(all, " ")
}

// makeReady makes the first pod ready that is not, or ends one that is being deleted.
func (w *world) makeReady() bool {
	for o := range w.state.Objects() {
		if o.GroupKind() != pods.GroupKind() || o.Field("status", "conditions") != nil {
			continue
		}
		w.patch(pods, o.Name(), "status", map[string]any{"status": map[string]any{
			"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}})
		return true
	}
	return false
}

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}
