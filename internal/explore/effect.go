package explore

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
