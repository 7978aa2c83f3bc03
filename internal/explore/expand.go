package explore

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// expand returns all steps from a state, in an order that depends on the state alone.
func (w *worker) expand(from state) []transition {
	return w.expandTo(from, nil)
}

// expandTo returns the step from a state with an action; all steps if there is none.
func (w *worker) expandTo(from state, only *Action) []transition {
	x := &expansion{worker: w, from: from, only: only}
	for i := range from.processes.all {
		x.deliveries(i)
		x.begins(i)
		x.requests(i)
		x.restarts(i)
	}
	x.moves()
	x.edits()
	x.interference()
	return x.all
}

// expansion collects the steps from a state.
type expansion struct {
	*worker

	from state
	// only is the action to look for; nil for all.
	only *Action
	all  []transition
}

// wants reports whether a step is looked for.
func (x *expansion) wants(a action) bool { return x.only == nil || sameAction(x.export(a), *x.only) }

// wantsOf reports whether a step of one of these kinds may be looked for.
func (x *expansion) wantsOf(kinds ...actionKind) bool {
	return x.only == nil || slices.Contains(kinds, x.only.Step)
}

// add adds a step. Steps that lead nowhere else are left out.
func (x *expansion) add(a action, to *draft, e effect, findings ...finding) {
	after := to.finish()
	if after == x.from && len(findings) == 0 {
		return
	}
	if len(x.options.Invariants) > 0 && after.stored != x.from.stored {
		findings = append(findings, x.brokenBetween(x.from.stored, after.stored)...)
	}
	x.all = append(x.all, transition{action: a, to: after, effect: x.effectOf(e), findings: findings})
}

// deliveries are the steps in which the next event of a kind reaches a cache: kinds have watches of their own.
func (x *expansion) deliveries(i int) {
	p := x.from.processes.all[i]
	if !x.options.Unreduced && x.mayWait(i, p) {
		return
	}
	for _, at := range p.events.heads() {
		a := action{kind: deliver, process: i, name: p.events.all[at].name}
		if x.wants(a) {
			d := x.draft(x.from)
			d.deliver(i, at)
			x.add(a, d, effect{})
		}
	}
}

// mayWait reports whether all events may wait until a run has ended, because their delivery commutes with all else:
// a run reads what the cache had when it began, and no other can begin. It is so if everything that is queued, or
// would be, has a run in flight.
func (x *expansion) mayWait(i int, p *process) bool {
	if len(p.runs) == 0 || len(p.events.all) == 0 {
		return false
	}
	inFlight := func(item Item) bool { return p.runOf(item) != nil }
	if slices.ContainsFunc(p.keys.items, func(item Item) bool { return !inFlight(item) }) {
		return false
	}
	for _, coming := range p.events.all {
		for _, item := range x.queuedBy(i, p, coming) {
			if !inFlight(item) {
				return false
			}
		}
	}
	return true
}

// runOf returns the run in flight of an item's key.
func (p *process) runOf(item Item) *run {
	for _, r := range p.runs {
		if compareItems(r.item, item) == 0 {
			return r
		}
	}
	return nil
}

// begins are the steps in which a run begins.
func (x *expansion) begins(i int) {
	p := x.from.processes.all[i]
	for at, item := range p.keys.items {
		a := action{kind: reconcile, process: i, controller: item.Controller, key: item.Key}
		if p.runOf(item) != nil || !x.wants(a) {
			continue
		}
		d := x.draft(x.from)
		rest := slices.Delete(slices.Clone(p.keys.items), at, at+1)
		d.processes[i] = d.processOf(p.view, p.events, d.keysOf(rest), p.runs)
		r := x.begin(i, item, x.cached(p))
		findings := d.goOn(i, nil, r)
		x.add(a, d, effect{}, findings...)
	}
}

// goOn replaces a run by what it is after a response, with what it has put into the cache, or ends it.
func (d *draft) goOn(i int, before, after *run) []finding {
	step := d.next(after)
	p := d.processes[i]
	runs := slices.DeleteFunc(slices.Clone(p.runs), func(r *run) bool { return r == before })
	if step.End == nil {
		at, _ := slices.BinarySearchFunc(runs, after, func(a, b *run) int { return compareItems(a.item, b.item) })
		runs = slices.Insert(runs, at, after)
	}
	d.processes[i] = d.processOf(p.view, p.events, p.keys, runs)
	if before != nil && !d.options.LateWrites {
		for _, wrote := range step.Wrote {
			d.observeWrite(i, wrote)
		}
		d.confirm(i)
	}
	if step.End == nil {
		return nil
	}
	d.enqueue(i, step.Queued...)
	if step.End.Again != nil {
		d.enqueue(i, *step.End.Again)
	}
	return endFindings(step.End)
}

// moves are the steps of other controllers and of the garbage collector.
func (x *expansion) moves() {
	if !x.wantsOf(proceed, collect) {
		return
	}
	var natural, failures []move
	for _, m := range x.movesFrom(x.from.stored) {
		if m.fault {
			failures = append(failures, m)
		} else {
			natural = append(natural, m)
		}
	}
	x.change(natural, func(*budget) {})
	if int(x.from.spent.faults) < x.options.Bounds.Faults {
		x.change(failures, func(b *budget) { b.faults++ })
	}
}

// edits are the steps of users.
func (x *expansion) edits() {
	x.changeWithin(edit, x.from.spent.edits, x.options.Bounds.Edits, x.editsOf, func(b *budget) { b.edits++ })
}

// interference are the steps of other clients.
func (x *expansion) interference() {
	x.changeWithin(interfere, x.from.spent.faults, x.options.Bounds.Faults, x.interferenceWith, func(b *budget) { b.faults++ })
}

// changeWithin adds changes of one kind that have a budget.
func (x *expansion) changeWithin(kind actionKind, spent uint8, most int, changes func(*stored) []move, spend func(*budget)) {
	if int(spent) < most && x.wantsOf(kind) {
		x.change(changes(x.from.stored), spend)
	}
}

// change adds changes of what is stored.
func (x *expansion) change(all []move, spend func(*budget)) {
	for _, m := range all {
		if !x.wants(m.action) {
			continue
		}
		d := x.draft(x.from)
		spend(&d.spent)
		d.store(m.after)
		x.add(m.action, d, m.effect)
	}
}

// restarts are the steps in which a process ends and starts again. An idle one does, too: what it does when it starts may
// differ from what it did.
func (x *expansion) restarts(i int) {
	p := x.from.processes.all[i]
	if int(x.from.spent.crashes) >= x.options.Bounds.Crashes {
		return
	}
	crashed := func(text string, start func(d *draft)) {
		a := action{kind: restart, process: i, text: text}
		if !x.wants(a) {
			return
		}
		d := x.draft(x.from)
		d.spent.crashes++
		start(d)
		x.add(a, d, effect{deviation: true})
	}
	crashed(newList, func(d *draft) { d.restart(i) })
	// Of a process with other objects, something else may be in flight.
	every := x.options.Unreduced || x.options.apart
	if (len(p.runs) > 0 || every) && len(p.events.all) > 0 {
		crashed(oldList, func(d *draft) { d.restartLate(i) })
	}
}

// The lists of a process that starts.
const (
	newList = "with a list of what is stored"
	oldList = "with a list as old as its cache"
)

// actionKind is a kind of step.
type actionKind string

const (
	deliver   actionKind = "deliver"   // the next event of a kind reaches a cache
	reconcile actionKind = "reconcile" // a run begins
	send      actionKind = "request"   // the API server handles the next request of a run
	reject    actionKind = "reject"    // the API server or the network fails the next request of a run
	restart   actionKind = "restart"   // a process ends, and starts again
	edit      actionKind = "edit"      // a user edits an object
	interfere actionKind = "interfere" // another client edits or deletes a child
	proceed   actionKind = "proceed"   // another controller does its work
	collect   actionKind = "collect"   // the garbage collector does, or a namespace that terminates
)

// Action is one step in a form that survives in a file.
type Action struct {
	Step actionKind `json:"step"`
	// Process is the name of the process that makes the step, Controller that of its controller.
	Process    string `json:"process,omitempty"`
	Controller string `json:"controller,omitempty"`
	// Key is the parent or the object of a run.
	Key string `json:"key,omitempty"`
	// Object is what the step is about.
	Object *object.Ref `json:"object,omitempty"`
	// Name is that of an edit, of a failure, or of a change by the environment.
	Name string `json:"name,omitempty"`
}

// action is an Action in memory.
type action struct {
	kind       actionKind
	process    int
	name       *name
	controller string
	key        queue.Key
	text       string
}

// export returns the action for a file.
func (e *engine) export(a action) Action {
	out := Action{Step: a.kind, Controller: a.controller, Name: a.text}
	if a.process >= 0 && len(e.options.Controllers) > 1 {
		out.Process = e.options.Controllers[a.process].Name
	}
	if a.key != (queue.Key{}) {
		out.Key = a.key.String()
	}
	if a.name != nil {
		ref := a.name.ref
		out.Object = &ref
	}
	return out
}

// transition is a step from one state to the next.
type transition struct {
	action action
	to     state
	effect uint32
	// findings are what is wrong with the step itself.
	findings []finding
}

// operation is what a step did to an object that is stored.
type operation uint8

const (
	untouched operation = iota
	created
	updated
	deleted
)

// effect is what a transition means for the properties that are read from the graph.
type effect struct {
	id uint32
	// deviation marks edits, crashes and faults: what need not happen.
	deviation bool
	// resets marks what makes creations and deletions expected: edits and faults.
	resets bool
	name   *name
	what   operation
	// ends marks the end of a pod, after which a new one is expected.
	ends bool
	// own marks writes of the processes; fresh those of runs that know the newest specs.
	own, fresh bool
	// by is the object whose run has created one; nil for other steps.
	by *name
}

func (e *engine) effectOf(x effect) uint32 {
	if x == (effect{}) {
		return 0
	}
	flags := uint32(x.what)
	for i, set := range []bool{x.deviation, x.resets, x.own, x.fresh, x.ends, x.name != nil, x.by != nil} {
		if set {
			flags |= 1 << (8 + i)
		}
	}
	k := key(nil).number(flags)
	for _, n := range []*name{x.name, x.by} {
		if n != nil {
			k = k.number(n.id)
		}
	}
	return e.effects.add(k, func(id uint32) *effect {
		x.id = id
		return &x
	}).id
}

// effectOn returns the effect of a change of what is stored.
func effectOn(changed []difference) effect {
	if len(changed) == 0 {
		return effect{}
	}
	switch c := changed[0]; {
	case c.before == nil:
		return effect{name: c.after.name, what: created}
	case c.after.gone:
		return effect{name: c.after.name, what: deleted}
	default:
		return effect{name: c.after.name, what: updated}
	}
}

// move is a change of what is stored that no controller under test makes.
type move struct {
	action action
	after  *stored
	effect effect
	fault  bool
}

// movesFrom returns what the environment and the garbage collector may do.
func (w *worker) movesFrom(at *stored) []move {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.moves != nil {
		return *at.moves
	}
	raw := at.raw()
	all := w.movesOf(at, collect, w.options.Server.Collect(raw))
	if w.options.Environment != nil {
		all = append(all, w.movesOf(at, proceed, w.options.Environment.Moves(raw))...)
	}
	at.moves = &all
	return all
}

func (w *worker) movesOf(at *stored, kind actionKind, raw []Move) []move {
	var all []move
	for _, m := range raw {
		after := w.storedFrom(m.After)
		changed := changes(w.engine, at, after)
		e := effectOn(changed)
		e.ends = kind == proceed && slices.ContainsFunc(changed, func(c difference) bool {
			return !hasEnded(c.before) &&
				hasEnded(c.after)
		})
		e.deviation, e.resets = m.Fault, m.Fault || e.ends
		all = append(all, move{action{kind: kind, process: -1, name: w.nameOf(m.Object), text: m.Name}, after, e, m.Fault})
	}
	return all
}

// hasEnded reports whether a version is of a pod that runs no more.
func hasEnded(v *version) bool {
	if v == nil || v.gone {
		return false
	}
	phase := string(v.object.Field("status", "phase"))
	return phase == `"Succeeded"` || phase == `"Failed"`
}

// editsOf returns what users may do.
func (w *worker) editsOf(at *stored) []move {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.edits == nil {
		all := w.made(at, edit, w.options.Edits, w.attempts.add)
		at.edits = &all
	}
	return *at.edits
}

// made returns what edits lead to. Those that change nothing here, or that the API server refuses, are left out, with a
// note of what came of each.
func (w *worker) made(at *stored, kind actionKind, edits []Edit, note func(edit int, err error)) []move {
	var all []move
	raw := at.raw()
	for i, one := range edits {
		after, err := w.edited(at, raw, one)
		note(i, err)
		if err != nil {
			continue
		}
		a := action{kind: kind, process: -1, name: w.nameOf(one.Object), text: one.Name}
		all = append(all, move{a, after, effect{deviation: true, resets: true}, true})
	}
	return all
}

// edited returns what is stored after an edit.
func (w *worker) edited(at *stored, raw Stored, one Edit) (*stored, error) {
	result, err := w.options.Server.Edit(raw, one)
	if err != nil {
		return nil, err
	}
	after := w.storedFrom(result)
	if after == at {
		return nil, errUnchanged
	}
	return after, nil
}

// interferenceWith returns what other clients may do with children.
func (w *worker) interferenceWith(at *stored) []move {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.interference != nil {
		return *at.interference
	}
	var edits []Edit
	for _, s := range at.slots {
		if s.version == nil || w.seeds[s.name] || !isControlled(s.version.object) || s.version.object.Deleting() {
			continue
		}
		edits = append(edits, Edit{Name: "deletes it", Object: s.name.ref, Delete: true},
			Edit{Name: "annotates it", Object: s.name.ref,
				Patch: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/other": "client"}}}})
	}
	all := w.made(at, interfere, edits, func(int, error) {}) // They are tried on any child, whatever it allows.
	at.interference = &all
	return all
}

func isControlled(o *object.Object) bool {
	_, controlled := o.Controller()
	return controlled
}
