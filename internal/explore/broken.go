package explore

import "slices"

// broken returns the invariants on states that do not hold; at rest those on rest.
func (e *engine) broken(at *stored, rest bool) []finding { return e.invariants.broken(at.raw(), rest) }

// hasSteps reports whether an invariant is about steps.
func (e *engine) hasSteps() bool { return e.invariants.hasSteps() }

// brokenStep returns the invariants on steps that one breaks.
func (e *engine) brokenStep(before, after *stored) []finding {
	return e.invariants.brokenStep(before.raw(), after.raw())
}

// brokenIn returns the invariants that do not hold in a state.
func (e *engine) brokenIn(at *stored) []finding {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.broken == nil {
		all := e.broken(at, false)
		at.broken = &all
	}
	return *at.broken
}

// brokenBetween returns the invariants that a step breaks: those on states after it, and those on steps.
func (e *engine) brokenBetween(before, after *stored) []finding {
	all := e.brokenIn(after)
	if !e.hasSteps() {
		return all
	}
	pair := [2]uint32{before.id, after.id}
	if known, found := e.pairs.Load(pair); found {
		return slices.Concat(all, known.([]finding))
	}
	more := e.brokenStep(before, after)
	e.pairs.Store(pair, more)
	return slices.Concat(all, more)
}
