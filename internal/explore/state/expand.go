package state

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Expand returns all steps from a state, in an order that depends on the state alone.
func (w *Worker) Expand(from State) []Transition {
	x := &expansion{Worker: w, from: from}
	x.deliveries()
	x.begins()
	x.responses()
	x.restarts()
	x.byOthers()
	return x.all
}

// expansion collects the steps from a state.
type expansion struct {
	*Worker

	from State
	all  []Transition
}

// add adds a step. Steps that lead nowhere else are left out.
func (x *expansion) add(a action, to *successor, e Effect, findings ...property.Finding) {
	after := to.finish()
	if after == x.from && len(findings) == 0 {
		return
	}
	if len(x.Invariants) > 0 && after.Stored != x.from.Stored {
		findings = append(findings, x.brokenBetween(x.from.Stored, after.Stored)...)
	}
	x.all = append(x.all, Transition{Action: a, To: after, Effect: x.effectOf(e), Findings: findings})
}

// deliveries are the steps in which the next event of a kind reaches a cache: kinds have watches of their own.
func (x *expansion) deliveries() {
	p := x.from.process
	if !x.Unreduced && x.mayWait(p) {
		return
	}
	for _, at := range p.events.heads() {
		d := x.successor(x.from)
		d.deliver(at)
		x.add(action{kind: world.Deliver, name: p.events.all[at].Name}, d, Effect{})
	}
}

// mayWait reports whether all events may wait until a run has ended, because their delivery commutes with all else:
// a run reads what the cache had when it began, and no other can begin. It is so if everything that is queued, or
// would be, has a run in flight.
func (x *expansion) mayWait(p *process) bool {
	if len(p.runs) == 0 || len(p.events.all) == 0 {
		return false
	}
	inFlight := func(item world.Item) bool { return p.runOf(item) != nil }
	if slices.ContainsFunc(p.keys.items, func(item world.Item) bool { return !inFlight(item) }) {
		return false
	}
	for _, coming := range p.events.all {
		for _, item := range x.queuedBy(p, coming) {
			if !inFlight(item) {
				return false
			}
		}
	}
	return true
}

// runOf returns the run in flight of an item's key.
func (p *process) runOf(item world.Item) *run {
	for _, r := range p.runs {
		if world.CompareItems(r.item, item) == 0 {
			return r
		}
	}
	return nil
}

// begins are the steps in which a run begins.
func (x *expansion) begins() {
	p := x.from.process
	for at, item := range p.keys.items {
		if p.runOf(item) != nil {
			continue
		}
		d := x.successor(x.from)
		rest := slices.Delete(slices.Clone(p.keys.items), at, at+1)
		d.process = d.processOf(p.view, p.events, d.keysOf(rest), p.runs)
		r := x.begin(item, x.cached(p))
		findings := d.goOn(nil, r)
		x.add(action{kind: world.Reconcile, controller: item.Controller, key: item.Key}, d, Effect{}, findings...)
	}
}

// goOn replaces a run by what it is after a response, with what it has put into the cache, or ends it.
func (s *successor) goOn(before, after *run) []property.Finding {
	step := s.next(after)
	p := s.process
	runs := slices.DeleteFunc(slices.Clone(p.runs), func(r *run) bool { return r == before })
	if step.End == nil {
		at, _ := slices.BinarySearchFunc(runs, after, func(a, b *run) int { return world.CompareItems(a.item, b.item) })
		runs = slices.Insert(runs, at, after)
	}
	s.process = s.processOf(p.view, p.events, p.keys, runs)
	if before != nil {
		for _, wrote := range step.Wrote {
			s.observeWrite(wrote)
		}
		s.confirm()
	}
	if step.End == nil {
		return nil
	}
	s.enqueue(step.Queued...)
	if step.End.Again != nil {
		s.enqueue(*step.End.Again)
	}
	return endFindings(step.End)
}

// restarts are the steps in which a process ends and starts again. An idle one does, too: what it does when it starts may
// differ from what it did.
func (x *expansion) restarts() {
	p := x.from.process
	if x.from.Spent.Crashes >= x.Most.Crashes {
		return
	}
	crashed := func(text string, start func(d *successor)) {
		d := x.successor(x.from)
		d.spent.Crashes++
		start(d)
		x.add(action{kind: world.Restart, text: text}, d, Effect{Deviation: true})
	}
	crashed(newList, func(d *successor) { d.restart() })
	// Of a process with other objects, something else may be in flight.
	every := x.Unreduced || x.Apart
	if (len(p.runs) > 0 || every) && len(p.events.all) > 0 {
		crashed(oldList, func(d *successor) { d.restartLate() })
	}
}

// The lists of a process that starts.
const (
	newList = "with a list of what is stored"
	oldList = "with a list as old as its cache"
)

// action is an Action in memory.
type action struct {
	kind       world.ActionKind
	name       *Name
	controller string
	key        queue.Key
	text       string
}

// Export returns the action for a file.
func (e *Space) Export(a action) world.Action {
	out := world.Action{Step: a.kind, Controller: a.controller, Name: a.text}
	if a.key != (queue.Key{}) {
		out.Key = a.key.String()
	}
	if a.name != nil {
		ref := a.name.Ref
		out.Object = &ref
	}
	return out
}

// Transition is a step from one state to the next.
type Transition struct {
	Action action
	To     State
	Effect uint32
	// Findings are what is wrong with the step itself.
	Findings []property.Finding
}

// movesFrom returns what the environment and the garbage collector may do, failures last.
func (w *Worker) movesFrom(at *Contents) []move {
	return once(at, &at.moves, func() []move {
		raw := at.Raw()
		all := w.movesOf(at, world.Collect, w.Server.Collect(raw))
		if w.Environment != nil {
			all = append(all, w.movesOf(at, world.Proceed, w.Environment(raw))...)
		}
		slices.SortStableFunc(all, func(a, b move) int { return cmp.Compare(a.spends.Faults, b.spends.Faults) })
		return all
	})
}

func (w *Worker) movesOf(at *Contents, kind world.ActionKind, raw []apiserver.Change) []move {
	var all []move
	for _, m := range raw {
		after := w.storedFrom(m.State)
		changed := w.Changes(at, after)
		e := effectOn(changed)
		e.Ends = kind == world.Proceed && slices.ContainsFunc(changed, func(c Change) bool {
			return !hasEnded(c.Before) && hasEnded(c.After)
		})
		e.Deviation, e.Resets = m.Failure, m.Failure || e.Ends
		spends := Budget{}
		if m.Failure {
			spends.Faults = 1
		}
		all = append(all, move{action{kind: kind, name: w.nameOf(m.Object), text: m.Name}, after, e, spends})
	}
	return all
}

// hasEnded reports whether a version is of a pod that runs no more.
func hasEnded(v *Version) bool {
	if v == nil || v.Gone {
		return false
	}
	phase := string(v.Object.Field("status", "phase"))
	return phase == `"Succeeded"` || phase == `"Failed"`
}

// made returns what edits lead to. Those that change nothing here, or that the API server refuses, are left out, with a
// note of what came of each.
func (w *Worker) made(at *Contents, kind world.ActionKind, spends Budget, edits []world.Edit, note func(edit int, err error)) []move {
	var all []move
	raw := at.Raw()
	for i, one := range edits {
		result, err := w.Server.Edit(raw, one)
		after := at
		if err == nil {
			after = w.storedFrom(result)
		}
		if err == nil && after == at {
			err = world.ErrUnchanged
		}
		note(i, err)
		if err != nil {
			continue
		}
		a := action{kind: kind, name: w.nameOf(one.Object), text: one.Name}
		all = append(all, move{a, after, Effect{Deviation: true, Resets: true}, spends})
	}
	return all
}

// interferenceWith returns what other clients may do with children.
func (w *Worker) interferenceWith(at *Contents) []move {
	return once(at, &at.interference, func() []move {
		var edits []world.Edit
		annotation := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/other": "client"}}}
		for _, s := range at.Entries {
			if s.Version == nil || w.Seeds[s.Name] || !world.IsControlled(s.Version.Object) || s.Version.Object.Deleting() {
				continue
			}
			edits = append(edits, world.Edit{Name: "deletes it", Object: s.Name.Ref, Delete: true},
				world.Edit{Name: "annotates it", Object: s.Name.Ref, Patch: annotation})
		}
		// They are tried on any child, whatever it allows.
		return w.made(at, world.Interfere, Budget{Faults: 1}, edits, func(int, error) {})
	})
}

// byOthers are the steps of other controllers and of the garbage collector, of users, and of other clients.
func (x *expansion) byOthers() {
	at, spent := x.from.Stored, x.from.Spent
	x.change(x.movesFrom(at))
	if spent.Edits < x.Most.Edits {
		x.change(once(at, &at.edits, func() []move {
			return x.made(at, world.MakeEdit, Budget{Edits: 1}, x.Edits, x.Attempts.add)
		}))
	}
	if spent.Faults < x.Most.Faults {
		x.change(x.interferenceWith(at))
	}
}

// change adds changes of what is stored, as far as the budget goes.
func (x *expansion) change(all []move) {
	for _, m := range all {
		d := x.successor(x.from)
		d.spent.Edits += m.spends.Edits
		d.spent.Faults += m.spends.Faults
		if d.spent.Faults <= x.Most.Faults {
			d.store(m.after)
			x.add(m.action, d, m.effect)
		}
	}
}

// operation is what a step did to an object that is stored.
type operation uint8

// The operations.
const (
	untouched operation = iota
	Created
	updated
	Deleted
)

// Effect is what a transition means for the properties that are read from the graph.
type Effect struct {
	id uint32
	// Deviation marks edits, crashes and faults: what need not happen.
	Deviation bool
	// Resets marks what makes creations and deletions expected: edits and faults.
	Resets bool
	Name   *Name
	What   operation
	// Ends marks the end of a pod, after which a new one is expected.
	Ends bool
	// Own marks writes of the processes; fresh those of runs that know the newest specs.
	Own, Fresh bool
	// By is the object whose run has created one; nil for other steps.
	By *Name
}

func (e *Space) effectOf(x Effect) uint32 {
	if x == (Effect{}) {
		return 0
	}
	flags := uint32(x.What)
	for i, set := range []bool{x.Deviation, x.Resets, x.Own, x.Fresh, x.Ends, x.Name != nil, x.By != nil} {
		if set {
			flags |= 1 << (8 + i)
		}
	}
	k := key(nil).number(flags)
	for _, n := range []*Name{x.Name, x.By} {
		if n != nil {
			k = k.number(n.ID)
		}
	}
	return e.effects.add(k, func(id uint32) *Effect {
		x.id = id
		return &x
	}).id
}

func effectOn(changed []Change) Effect {
	if len(changed) == 0 {
		return Effect{}
	}
	switch c := changed[0]; {
	case c.Before == nil:
		return Effect{Name: c.After.Name, What: Created}
	case c.After.Gone:
		return Effect{Name: c.After.Name, What: Deleted}
	default:
		return Effect{Name: c.After.Name, What: updated}
	}
}

// responses are the steps in which the API server handles the next requests of runs, or fails them.
func (x *expansion) responses() {
	for _, r := range x.from.process.runs {
		done := x.Do(x.from.Stored, r.request)
		x.respond(r, r.action(world.Send, ""), done.after, done.Response)
		if r.request.Method == http.MethodGet || x.from.Spent.Faults >= x.Most.Faults {
			continue
		}
		for _, f := range failures {
			after := x.from.Stored
			if f.lands {
				after = done.after
			}
			if !f.lands || after != x.from.Stored {
				x.respond(r, r.action(world.Reject, f.name), after, f.response)
			}
		}
	}
}

// respond adds the step in which a run gets a response.
func (x *expansion) respond(r *run, a action, after *Contents, response loop.Response) {
	d := x.successor(x.from)
	changed := x.Changes(x.from.Stored, after)
	e := effectOn(changed)
	e.Own = len(changed) > 0
	e.Fresh = e.Own && r.isFresh(x.from.Stored, x.Seeds)
	if e.Own && e.What == Created {
		e.By = x.nameOf(r.item.Object)
	}
	if a.kind == world.Reject {
		d.spent.Faults++
		e.Deviation, e.Resets = true, true
	}
	d.store(after)
	x.add(a, d, e, d.goOn(r, x.afterResponse(r, response))...)
}

// failures are how a request fails that a run sends.
var failures = []struct {
	name string
	// lands is set if the API server has handled the request all the same.
	lands    bool
	response loop.Response
}{
	{"409 Conflict: another client has changed the object", false, refusal(http.StatusConflict, "Conflict",
		"the object has been modified; please apply your changes to the latest version and try again")},
	{"500 Internal Server Error", false, refusal(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")},
	{"the connection ends before the response, but the request was handled", true,
		loop.Response{Err: errors.New("read tcp: connection reset by peer")}},
}

// refusal is a response of the API server.
func refusal(status int, reason, message string) loop.Response {
	return loop.Response{Code: status, Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, status)}
}

// endFindings returns what is wrong with the end of a run.
func endFindings(end *world.End) []property.Finding {
	switch {
	case end.Panicked:
		return []property.Finding{{Property: property.Valid, Text: "the reconcile panics: " + end.Err.Error()}}
	case isRejection(end.Err):
		return []property.Finding{{Property: property.Valid, Text: "the API server rejects a write: " + end.Err.Error()}}
	}
	return nil
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

// Begin returns workers for a system, and the state in which the objects are stored, and the process has just listed them.
func Begin(system System, most Budget, workers int) (all []*Worker, initial State, err error) {
	e, err := New(system, most)
	if err != nil {
		return nil, initial, err
	}
	for range workers {
		w := &Worker{Space: e}
		if w.Process, err = e.Controller.Start(); err != nil {
			return nil, initial, fmt.Errorf("start %s: %w", e.Controller.Name, err)
		}
		all = append(all, w)
	}
	raw, err := e.storeObjects()
	if err != nil {
		return nil, initial, err
	}
	at := &successor{Worker: all[0], stored: e.storedFrom(raw)}
	at.restart()
	return all, at.finish(), all[0].Err
}

// storeObjects creates the initial objects.
func (e *Space) storeObjects() (*apiserver.State, error) {
	raw := e.Server.Empty()
	objects := e.Objects
	if e.External != nil {
		external, err := e.External.Object()
		if err != nil {
			return nil, err
		}
		objects = append(slices.Clone(objects), external)
	}
	for _, o := range objects {
		after, err := e.Server.Edit(raw, world.Edit{Object: o.Ref(), Create: world.Manifest{Object: o}})
		if fields := world.UnknownFields(err); fields != "" {
			return nil, fmt.Errorf("store %s: %s", o.Ref(), fields)
		}
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", o.Ref(), err)
		}
		raw = after
	}
	return raw, nil
}
