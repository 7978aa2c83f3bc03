package explore

import (
	"errors"
	"slices"
	"sync"
)

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
	all := w.movesOf(at, collect, w.Server.Collect(raw))
	if w.Environment != nil {
		all = append(all, w.movesOf(at, proceed, w.Environment.Moves(raw))...)
	}
	at.moves = &all
	return all
}

func (w *worker) movesOf(at *stored, kind actionKind, raw []Move) []move {
	var all []move
	for _, m := range raw {
		after := w.storedFrom(m.After)
		changed := w.changes(at, after)
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
		all := w.made(at, edit, w.Edits, w.attempts.add)
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
	result, err := w.Server.Edit(raw, one)
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

// attempts remembers what came of the edits of users. It is safe for concurrent use.
type attempts struct {
	mu  sync.Mutex
	all []attempt
}

// attempt is what came of one edit.
type attempt struct {
	made bool
	// err is the error of the API server: that with the smallest text, so that it does not depend on the order in which
	// workers try. It is errUnchanged if the server has refused nothing, and nil if the edit was never tried.
	err error
}

// add notes the result of an edit.
func (a *attempts) add(edit int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := &a.all[edit]
	switch {
	case err == nil:
		one.made = true
	case one.err == nil, errors.Is(one.err, errUnchanged), !errors.Is(err, errUnchanged) && err.Error() < one.err.Error():
		one.err = err
	}
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
	if x.from.spent.faults < x.most.faults {
		x.change(failures, func(b *budget) { b.faults++ })
	}
}

// edits are the steps of users.
func (x *expansion) edits() {
	x.changeWithin(edit, x.from.spent.edits, x.most.edits, x.editsOf, func(b *budget) { b.edits++ })
}

// interference are the steps of other clients.
func (x *expansion) interference() {
	x.changeWithin(interfere, x.from.spent.faults, x.most.faults, x.interferenceWith, func(b *budget) { b.faults++ })
}

// changeWithin adds changes of one kind that have a budget.
func (x *expansion) changeWithin(kind actionKind, spent, most uint8, changes func(*stored) []move, spend func(*budget)) {
	if spent < most && x.wantsOf(kind) {
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
