package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// engine has the values of all states of a search.
type engine struct {
	options      Options
	names        table[name]
	bodies       table[body]
	versions     table[version]
	parsed       sync.Map // versions by their object
	stores       table[stored]
	views        table[view]
	eventLists   table[events]
	writes       sync.Map // writers by written
	writers      atomic.Uint32
	keyLists     table[keys]
	runs         table[run]
	requests     table[request]
	processTable table[process]
	tuples       table[processes]
	effects      table[effect]
	// seeds are the names of the objects that users keep.
	seeds      map[*name]bool
	invariants []*compiled
	// hasSteps is set if one of them is about steps.
	hasSteps bool
	// attempts are those of the edits in the options.
	attempts attempts
	// pairs remembers which invariants break between two contents of the API server.
	pairs sync.Map
	// These count what had to be computed.
	computed struct{ steps, deliveries, requests atomic.Int64 }
}

// worker expands states. Each has processes of its own.
type worker struct {
	*engine

	processes []Process
	err       error
}

// state is one state of everything. Equal states have equal numbers.
type state struct {
	stored    *stored
	processes *processes
	spent     budget
}

// budget counts the steps that are limited.
type budget struct{ edits, crashes, faults uint8 }

// total is the number of deviations from what would happen by itself.
func (b budget) total() int { return int(b.edits) + int(b.crashes) + int(b.faults) }

// packed is a state as numbers.
type packed struct {
	stored, processes uint32
	spent             budget
}

func (s state) pack() packed { return packed{s.stored.id, s.processes.id, s.spent} }

func (e *engine) unpack(p packed) state {
	return state{stored: e.stores.at(p.stored), processes: e.tuples.at(p.processes), spent: p.spent}
}

func newEngine(options Options) (*engine, error) {
	e := &engine{options: options, seeds: map[*name]bool{}, attempts: attempts{all: make([]attempt, len(options.Edits))}}
	var err error
	if e.invariants, err = compileInvariants(options.Invariants); err != nil {
		return nil, err
	}
	e.hasSteps = slices.ContainsFunc(options.Invariants, func(i Invariant) bool { return i.Step != "" })
	for _, o := range options.Objects {
		e.seeds[e.nameOf(o.Ref())] = true
	}
	for i := range options.Edits {
		e.seeds[e.nameOf(options.Edits[i].Object)] = true
	}
	// The number zero means that a transition has no effect.
	e.effects.add(nil, func(uint32) *effect { return &effect{} })
	return e, nil
}

func (e *engine) newWorker() (*worker, error) {
	w := &worker{engine: e}
	for _, c := range e.options.Controllers {
		p, err := c.Start()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.Name, err)
		}
		w.processes = append(w.processes, p)
	}
	return w, nil
}

// initial returns the state in which the objects are stored, and all processes have just listed them.
func (w *worker) initial(raw Stored) state {
	at := &draft{worker: w, stored: w.storedFrom(raw), processes: make([]*process, len(w.processes))}
	for i := range w.processes {
		at.restart(i)
	}
	return at.finish()
}

// run is a reconcile in flight, and what it does next.
type run struct {
	id      uint32
	process int
	item    Item
	view    *view
	// before is the run before its last exchange; nil at the beginning.
	before   *run
	exchange Exchange

	mu   sync.Mutex
	step *Step
	// request is that of the step; nil if the run ends.
	request *request
	// fresh reports whether the run knows the newest specs of what users keep, by what is stored.
	fresh map[uint32]bool
}

// request is a request with its number.
type request struct {
	id uint32
	Request
}

func (e *engine) requestOf(r *Request) *request {
	k := key(nil).text(r.Method).text(r.Target).text(r.ContentType).text(r.Accept).text(r.User)
	return e.requests.add(append(k, r.Body...), func(id uint32) *request { return &request{id, *r} })
}

// begin returns the run of an item.
func (e *engine) begin(i int, item Item, seen *view) *run {
	k := appendItem(key(nil).number(0).number(uint32(i)).number(seen.id), item)
	return e.runs.add(k, func(id uint32) *run { return &run{id: id, process: i, item: item, view: seen} })
}

// after returns the run after a response.
func (e *engine) after(r *run, response Response) *run {
	k := key(nil).number(1).number(r.id).number(uint32(response.Status))
	if response.Err != nil {
		k = k.text(response.Err.Error())
	}
	return e.runs.add(append(k, response.Body...), func(id uint32) *run {
		return &run{id: id, process: r.process, item: r.item, view: r.view, before: r, exchange: Exchange{r.request.Request, response}}
	})
}

// exchanges returns the requests of a run so far.
func (r *run) exchanges() []Exchange {
	var all []Exchange
	for ; r.before != nil; r = r.before {
		all = append(all, r.exchange)
	}
	slices.Reverse(all)
	return all
}

// next returns what a run does next.
func (w *worker) next(r *run) *Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != nil {
		return r.step
	}
	w.computed.steps.Add(1)
	step := w.processes[r.process].Step(Run{Item: r.item, Cached: r.view.objects(), Exchanges: r.exchanges()})
	if step.Err != nil && w.err == nil {
		w.err = step.Err
	}
	if step.Request != nil {
		r.request = w.requestOf(step.Request)
	}
	r.step = &step
	return r.step
}

// result is what a request leads to.
type result struct {
	after    *stored
	response Response
}

// do returns what a request leads to.
func (w *worker) do(at *stored, r *request) *result {
	at.mu.Lock()
	defer at.mu.Unlock()
	if known := at.done[r.id]; known != nil {
		return known
	}
	w.computed.requests.Add(1)
	after, response := w.options.Server.Do(at.raw(), r.Request)
	if at.done == nil {
		at.done = map[uint32]*result{}
	}
	at.done[r.id] = &result{w.storedFrom(after), response}
	return at.done[r.id]
}

// isFresh reports whether a run began with the newest specs of what users keep.
func (r *run) isFresh(at *stored, seeds map[*name]bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, known := r.fresh[at.id]
	if known {
		return fresh
	}
	fresh = true
	for n := range seeds {
		now, seen := at.get(n).version, r.view.get(n)
		fresh = fresh && (seen == nil || now != nil && seen.object.IntentDigest() == now.object.IntentDigest())
	}
	if r.fresh == nil {
		r.fresh = map[uint32]bool{}
	}
	r.fresh[at.id] = fresh
	return fresh
}

// failures are how a request fails that a run sends.
var failures = []struct {
	name string
	// lands is set if the API server has handled the request all the same.
	lands    bool
	response Response
}{
	{"409 Conflict: another client has changed the object", false, failed(http.StatusConflict, "Conflict",
		"the object has been modified; please apply your changes to the latest version and try again")},
	{"500 Internal Server Error", false, failed(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")},
	{"the connection ends before the response, but the request was handled", true,
		Response{Err: errors.New("read tcp: connection reset by peer")}},
}

func failed(status int, reason, message string) Response {
	return Response{Status: status, Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, status)}
}

// requests are the steps in which the API server handles the next requests of runs, or fails them.
func (x *expansion) requests(i int) {
	for _, r := range x.from.processes.all[i].runs {
		if a := r.action(send, ""); x.wants(a) {
			done := x.do(x.from.stored, r.request)
			x.respond(r, a, done.after, done.response)
		}
		if r.request.Method == http.MethodGet || int(x.from.spent.faults) >= x.options.Bounds.Faults {
			continue
		}
		for _, f := range failures {
			a, after := r.action(reject, f.name), x.from.stored
			if !x.wants(a) {
				continue
			}
			if f.lands {
				after = x.do(x.from.stored, r.request).after
			}
			if !f.lands || after != x.from.stored {
				x.respond(r, a, after, f.response)
			}
		}
	}
}

// action returns a step of a run.
func (r *run) action(kind actionKind, text string) action {
	return action{kind: kind, process: r.process, controller: r.item.Controller, key: r.item.Key, text: text}
}

// respond adds the step in which a run gets a response.
func (x *expansion) respond(r *run, a action, after *stored, response Response) {
	d := x.draft(x.from)
	changed := changes(x.engine, x.from.stored, after)
	e := effectOn(changed)
	e.own = len(changed) > 0
	e.fresh = e.own && r.isFresh(x.from.stored, x.seeds)
	if e.own && e.what == created {
		e.by = x.nameOf(r.item.Object)
	}
	if a.kind == reject {
		d.spent.faults++
		e.deviation, e.resets = true, true
	}
	d.store(after)
	x.add(a, d, e, d.goOn(r.process, r, x.after(r, response))...)
}

// endFindings returns what is wrong with the end of a run.
func endFindings(end *End) []finding {
	var all []finding
	if end.Panicked {
		all = append(all, finding{property: Valid, text: "the reconcile panics: " + end.Err.Error()})
		return all
	}
	if isRejection(end.Err) {
		all = append(all, finding{property: Valid, text: "the API server rejects a write: " + end.Err.Error()})
	}
	return all
}

// isRejection reports whether an error is, or has among its parts, the refusal of a request that cannot succeed. A refused
// request alone is not enough: Setpoint replaces an object whose update is refused, and that may fail otherwise.
func isRejection(err error) bool {
	if status, is := err.(apierrors.APIStatus); is {
		return slices.Contains(invalidStatuses, int(status.Status().Code))
	}
	switch e := err.(type) { //nolint:errorlint // It unwraps.
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), isRejection)
	case interface{ Unwrap() error }:
		return isRejection(e.Unwrap())
	}
	return false
}

// invalidStatuses are those of requests that cannot succeed whatever the state.
var invalidStatuses = []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType,
	http.StatusMethodNotAllowed}

// Setpoint returns a process of Setpoint with controllers. A server knows the resources of the kinds.
func Setpoint(ctx context.Context, programs loop.Programs, options loop.Options,
	resourceOf func(object.GroupKind) (object.Resource, bool)) Controller {
	var names []string
	var parents []object.Resource
	for i := range programs.Compose {
		names, parents = append(names, programs.Compose[i].Name), append(parents, programs.Compose[i].Parent)
	}
	for i := range programs.Handle {
		names, parents = append(names, programs.Handle[i].Name), append(parents, programs.Handle[i].Resource)
	}
	return Controller{Name: "setpoint", Start: func() (Process, error) {
		p, err := loop.New(programs, options)
		if err != nil {
			return nil, err
		}
		return &setpoint{ctx: ctx, process: p, names: names, parents: parents, resourceOf: resourceOf}, nil
	}}
}

// setpoint is a process of Setpoint.
type setpoint struct {
	ctx     context.Context //nolint:containedctx // A search ends with it, and its steps have no other.
	process *loop.Process
	// names and parents are those of the programs, and the kinds that they reconcile.
	names      []string
	parents    []object.Resource
	resourceOf func(object.GroupKind) (object.Resource, bool)
}

// writer is the view of a cache that has observed a write.
type writer struct {
	selection cache.Selection
	view      int
}

// Omissions says what is not explored, for the report.
func (s *setpoint) Omissions() []string { return s.process.Omissions() }

// Watches implements Process.
func (s *setpoint) Watches(o *object.Object) bool {
	resource, known := s.resourceOf(o.GroupKind())
	return known && s.process.Watches(resource)
}

func (s *setpoint) view(cached []*object.Object) *loop.View {
	return loop.NewView(objectsBy(s.resourceOf, cached))
}

// Start implements Process.
func (s *setpoint) Start(cached []*object.Object) []Item {
	return s.items(s.process.Start(s.view(cached)))
}

// Deliver implements Process.
func (s *setpoint) Deliver(seen []*object.Object, own []Event, event Event) []Item {
	resource, _ := s.resourceOf(event.Object.GroupKind())
	_, items := s.process.Deliver(s.ctx, s.viewWith(seen, own), loop.Event{Resource: resource, Object: event.Object,
		Deleted: event.Deleted})
	return s.items(items)
}

// Observe implements Process.
func (s *setpoint) Observe(seen []*object.Object, own []Event, wrote Event) []Item {
	return s.items(s.process.Observe(s.ctx, s.viewWith(seen, own), writeOf(wrote)))
}

// viewWith returns a view with own writes whose events are still to come.
func (s *setpoint) viewWith(seen []*object.Object, own []Event) *loop.View {
	writes := make([]cache.Write, len(own))
	for i, e := range own {
		writes[i] = writeOf(e)
	}
	return s.view(seen).Observe(writes...)
}

func writeOf(e Event) cache.Write {
	by := e.Writer.(writer)
	return cache.Write{Selection: by.selection, View: by.view, Object: e.Object, Deleted: e.Deleted}
}

// Reads implements Reader.
func (s *setpoint) Reads(item Item, o *object.Object) bool {
	return s.process.MayRead(item.Value.(loop.Item), o)
}

// Merge implements Process.
func (s *setpoint) Merge(older, newer Item) Item {
	return s.item(older.Value.(loop.Item).Merge(newer.Value.(loop.Item)))
}

func (s *setpoint) items(raw []loop.Item) []Item {
	all := make([]Item, len(raw))
	for i, one := range raw {
		all[i] = s.item(one)
	}
	return all
}

func (s *setpoint) item(raw loop.Item) Item {
	bare := loop.Item{Item: queue.Item{Key: raw.Key, Causes: raw.Causes}, Program: raw.Program}
	ref := s.parents[raw.Program].Ref(raw.Key.Namespace, raw.Key.Name).Identity()
	return Item{Controller: s.names[raw.Program], Key: raw.Key, Object: ref, Digest: raw.Digest(), Refers: raw.Digest() != bare.Digest(),
		Value: raw}
}

// Step implements Process.
func (s *setpoint) Step(run Run) Step {
	item := run.Item.Value.(loop.Item)
	exchanges := make([]loop.Exchange, len(run.Exchanges))
	for i, e := range run.Exchanges {
		exchanges[i] = loop.Exchange{Request: e.Request, Response: loop.Response{Code: e.Response.Status, Body: e.Response.Body,
			Err: e.Response.Err}}
	}
	raw := s.process.Step(s.ctx, loop.Run{Item: item, View: s.view(run.Cached), Exchanges: exchanges})
	step := Step{Request: raw.Request, Queued: s.items(raw.Queued), Err: raw.Err}
	for _, w := range raw.Writes {
		step.Wrote = append(step.Wrote, Event{Object: w.Object, Deleted: w.Deleted, Writer: writer{w.Selection, w.View}})
	}
	if raw.End != nil {
		step.End = &End{Err: raw.End.Err, Panicked: raw.End.Panicked, Again: s.again(item, raw.End)}
	}
	return step
}

// again returns the next run of an item that its end plans; nil if it plans none.
func (s *setpoint) again(item loop.Item, end *loop.End) *Item {
	kind := end.Requeue.Cause.Kind
	switch {
	case end.Outcome != queue.NoRequeue() && end.Err != nil:
		kind = queue.Retrying
	case end.Outcome != queue.NoRequeue():
		kind = queue.RequeueAfter
	case end.Requeue.After == 0:
		return nil
	}
	next := s.item(item.Retry(kind))
	next.Failed = end.Err != nil
	return &next
}
