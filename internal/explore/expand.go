package explore

import (
	"slices"

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
func (x *expansion) wants(a action) bool { return x.only == nil || SameAction(x.export(a), *x.only) }

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
	if len(x.Invariants) > 0 && after.stored != x.from.stored {
		findings = append(findings, x.brokenBetween(x.from.stored, after.stored)...)
	}
	x.all = append(x.all, transition{action: a, to: after, effect: x.effectOf(e), findings: findings})
}

// deliveries are the steps in which the next event of a kind reaches a cache: kinds have watches of their own.
func (x *expansion) deliveries(i int) {
	p := x.from.processes.all[i]
	if !x.Unreduced && x.mayWait(i, p) {
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
	if before != nil && !d.LateWrites {
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

// restarts are the steps in which a process ends and starts again. An idle one does, too: what it does when it starts may
// differ from what it did.
func (x *expansion) restarts(i int) {
	p := x.from.processes.all[i]
	if x.from.spent.crashes >= x.most.crashes {
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
	every := x.Unreduced || x.Apart
	if (len(p.runs) > 0 || every) && len(p.events.all) > 0 {
		crashed(oldList, func(d *draft) { d.restartLate(i) })
	}
}

// The lists of a process that starts.
const (
	newList = "with a list of what is stored"
	oldList = "with a list as old as its cache"
)

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
	if a.process >= 0 && len(e.Controllers) > 1 {
		out.Process = e.Controllers[a.process].Name
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
