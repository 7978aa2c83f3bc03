package explore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
