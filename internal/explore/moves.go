package explore

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
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
