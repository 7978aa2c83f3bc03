package explore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// System is what is explored. Controllers, Server and Objects are required.
type System struct {
	Controllers []Controller
	Server      Server
	// Environment is what other controllers do; nil for nothing.
	Environment Environment
	// Objects are stored at the beginning.
	Objects []*object.Object
	// Edits are those that users may make.
	Edits      []Edit
	Invariants []Invariant
	// External is what hooks call outside of the cluster, with its initial state; nil for nothing.
	External *loop.External
	// LateWrites explores a runtime without read-your-writes: a cache has a write when its event arrives.
	LateWrites bool
	// Unreduced explores every interleaving, also those that cannot differ in what they lead to.
	Unreduced bool
	// Unrenamed leaves versions and UIDs as they are: those of a real server, or as readers expect them.
	Unrenamed bool
	// Apart is set if other objects are explored apart.
	Apart bool
}

// engine has the values of all states of a search.
type engine struct {
	System

	// most is how many edits, crashes and faults there may be.
	most         budget
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
	invariants invariantSet
	// attempts are those of the edits of users.
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

// newEngine returns the states of a system with at most so many edits, crashes and faults.
func newEngine(system System, most budget) (*engine, error) {
	e := &engine{System: system, most: most, seeds: map[*name]bool{}, attempts: attempts{all: make([]attempt, len(system.Edits))}}
	var err error
	if e.invariants, err = compileInvariants(system.Invariants); err != nil {
		return nil, err
	}
	for _, o := range system.Objects {
		e.seeds[e.nameOf(o.Ref())] = true
	}
	for i := range system.Edits {
		e.seeds[e.nameOf(system.Edits[i].Object)] = true
	}
	// The number zero means that a transition has no effect.
	e.effects.add(nil, func(uint32) *effect { return &effect{} })
	return e, nil
}

func (e *engine) newWorker() (*worker, error) {
	w := &worker{engine: e}
	for _, c := range e.Controllers {
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

// storeObjects creates the initial objects.
func (e *engine) storeObjects() (Stored, error) {
	var raw Stored
	objects := e.Objects
	if e.External != nil {
		external, err := e.External.Object()
		if err != nil {
			return nil, err
		}
		objects = append(slices.Clone(objects), external)
	}
	for _, o := range objects {
		after, err := e.Server.Edit(raw, Edit{Object: o.Ref(), Create: o})
		if fields := unknownFields(err); fields != "" {
			return nil, fmt.Errorf("store %s: %s", o.Ref(), fields)
		}
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", o.Ref(), err)
		}
		raw = after
	}
	return raw, nil
}
