// Package state has the states of a system that is explored, and the steps between them.
//
// A state is a few numbers: equal values are stored once, and what is computed of a value is computed once, so that most steps
// are lookups. It neither decides what a controller does nor what an API server stores, nor which states are looked at.
package state

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// System is what is explored. Controllers, Server and Objects are required.
type System struct {
	Controllers []world.Controller
	Server      world.Server
	// Environment is what other controllers do; nil for nothing.
	Environment world.Environment
	// Objects are stored at the beginning.
	Objects []*object.Object
	// Edits are those that users may make.
	Edits      []world.Edit
	Invariants []property.Invariant
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

// Space has the values of all states of a search.
type Space struct {
	System

	// Most is how many edits, crashes and faults there may be.
	Most         Budget
	names        table[Name]
	bodies       table[body]
	versions     table[Version]
	parsed       sync.Map // versions by their object
	stores       table[Contents]
	views        table[view]
	eventLists   table[events]
	writes       sync.Map // writers by written
	writers      atomic.Uint32
	keyLists     table[keys]
	runs         table[run]
	requests     table[Request]
	processTable table[process]
	tuples       table[processes]
	effects      table[Effect]
	// Seeds are the names of the objects that users keep.
	Seeds      map[*Name]bool
	invariants property.Set
	// Attempts are those of the edits of users.
	Attempts attempts
	// pairs remembers which invariants break between two contents of the API server.
	pairs sync.Map
	// These count what had to be computed.
	Computed struct{ Steps, Deliveries, Requests atomic.Int64 }
}

// Worker expands states. Each has processes of its own.
type Worker struct {
	*Space

	Processes []world.Process
	Err       error
}

// State is one state of everything. Equal states have equal numbers.
type State struct {
	Stored    *Contents
	processes *processes
	Spent     Budget
}

// Budget counts the steps that are limited.
type Budget struct{ Edits, Crashes, Faults uint8 }

// Total is the number of deviations from what would happen by itself.
func (b Budget) Total() int { return int(b.Edits) + int(b.Crashes) + int(b.Faults) }

// Packed is a state as numbers.
type Packed struct {
	Stored, processes uint32
	Spent             Budget
}

// Pack returns the state as numbers.
func (s State) Pack() Packed { return Packed{s.Stored.id, s.processes.id, s.Spent} }

// Unpack returns the state of its numbers.
func (e *Space) Unpack(p Packed) State {
	return State{Stored: e.stores.at(p.Stored), processes: e.tuples.at(p.processes), Spent: p.Spent}
}

// New returns the states of a system with at most so many edits, crashes and faults.
func New(system System, most Budget) (*Space, error) {
	e := &Space{System: system, Most: most, Seeds: map[*Name]bool{}, Attempts: attempts{All: make([]attempt, len(system.Edits))}}
	var err error
	if e.invariants, err = property.Compile(system.Invariants); err != nil {
		return nil, err
	}
	for _, o := range system.Objects {
		e.Seeds[e.nameOf(o.Ref())] = true
	}
	for i := range system.Edits {
		e.Seeds[e.nameOf(system.Edits[i].Object)] = true
	}
	// The number zero means that a transition has no effect.
	e.effects.add(nil, func(uint32) *Effect { return &Effect{} })
	return e, nil
}

// Contents returns what is stored, by its number.
func (e *Space) Contents(id uint32) *Contents { return e.stores.at(id) }

// Effect returns what a transition means, by its number.
func (e *Space) Effect(id uint32) *Effect { return e.effects.at(id) }

// Begin returns workers for a system, and the state in which the objects are stored, and all processes have just listed them.
func Begin(system System, most Budget, workers int) (all []*Worker, initial State, err error) {
	e, err := New(system, most)
	if err != nil {
		return nil, initial, err
	}
	for range workers {
		w, err := e.newWorker()
		if err != nil {
			return nil, initial, err
		}
		all = append(all, w)
	}
	raw, err := e.storeObjects()
	if err != nil {
		return nil, initial, err
	}
	return all, all[0].initial(raw), all[0].Err
}

func (e *Space) newWorker() (*Worker, error) {
	w := &Worker{Space: e}
	for _, c := range e.Controllers {
		p, err := c.Start()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.Name, err)
		}
		w.Processes = append(w.Processes, p)
	}
	return w, nil
}

func (w *Worker) initial(raw world.Stored) State {
	at := &draft{Worker: w, stored: w.storedFrom(raw), processes: make([]*process, len(w.Processes))}
	for i := range w.Processes {
		at.restart(i)
	}
	return at.finish()
}

// storeObjects creates the initial objects.
func (e *Space) storeObjects() (world.Stored, error) {
	var raw world.Stored
	objects := e.Objects
	if e.External != nil {
		external, err := e.External.Object()
		if err != nil {
			return nil, err
		}
		objects = append(slices.Clone(objects), external)
	}
	for _, o := range objects {
		after, err := e.Server.Edit(raw, world.Edit{Object: o.Ref(), Create: o})
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

// Broken returns the invariants on states that do not hold; at rest those on rest.
func (e *Space) Broken(at *Contents, rest bool) []property.Finding {
	return e.invariants.Broken(at.Raw(), rest)
}

// HasSteps reports whether an invariant is about steps.
func (e *Space) HasSteps() bool { return e.invariants.HasSteps() }

// BrokenStep returns the invariants on steps that one breaks.
func (e *Space) BrokenStep(before, after *Contents) []property.Finding {
	return e.invariants.BrokenStep(before.Raw(), after.Raw())
}

// BrokenIn returns the invariants that do not hold in a state.
func (e *Space) BrokenIn(at *Contents) []property.Finding {
	return once(at, &at.broken, func() []property.Finding { return e.Broken(at, false) })
}

// brokenBetween returns the invariants that a step breaks: those on states after it, and those on steps.
func (e *Space) brokenBetween(before, after *Contents) []property.Finding {
	all := e.BrokenIn(after)
	if !e.HasSteps() {
		return all
	}
	pair := [2]uint32{before.id, after.id}
	if known, found := e.pairs.Load(pair); found {
		return slices.Concat(all, known.([]property.Finding))
	}
	more := e.BrokenStep(before, after)
	e.pairs.Store(pair, more)
	return slices.Concat(all, more)
}
