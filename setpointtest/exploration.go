package setpointtest

import (
	"cmp"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore"
)

// Exploration says what Explore explores of an app.
type Exploration struct {
	// Objects are stored at the beginning. They need a name; namespaced ones without a namespace are in "default".
	Objects []any
	// Edits are what users may do. The default is edits of the Objects that are generated from the schemas of CRDs.
	Edits []Edit
	// Invariants must hold, besides the properties in docs/test.md.
	Invariants []Invariant
	// Unchecked are properties that are not meant to hold, such as SameEnd.
	Unchecked []string
	// External is a fake of the systems outside of the cluster that the functions of the app call: a pointer whose value
	// JSON holds whole, such as a struct with exported fields. Its value is part of each state that is explored, so a
	// call may be lost, repeated, or followed by a crash as any write. One call of a function is one step.
	External any
	// CRDs are those of kinds that the app does not install.
	CRDs [][]byte
	// Bounds limit what is explored. The zero value means 2 edits, 1 crash, 1 fault and 30 seconds.
	Bounds Bounds
}

// Edit is a change that a user makes. One of Patch, Create and Delete is set.
type Edit struct {
	Name string
	// Of is one of the Objects, or External. It is optional if there is only one object.
	Of any
	// Patch is a merge patch as YAML or JSON, such as "spec: {size: 2}".
	Patch string
	// Create is an object to create.
	Create any
	Delete bool
}

// Invariant must hold in what is explored. Exactly one of its expressions and functions is set. The expressions are
// those of docs/test.md. The functions return what is wrong; they must depend only on the state, and on External,
// which has the value that belongs to it.
type Invariant struct {
	Name string

	// Always holds in every state, Never in none, Eventually in every state of rest, and Step between each state and the
	// next one.
	Always, Never, Eventually, Step string

	// In is called for every state, AtRest for every state of rest, and Between for each state and the next one.
	In, AtRest func(s *State) error
	Between    func(before, after *State) error
}

// Bounds limit an exploration.
type Bounds struct {
	// Edits, Crashes and Faults are how many of each there may be. Faults are writes that are refused or whose response
	// is lost, pods that fail, and changes by other clients.
	Edits, Crashes, Faults int
	// Time is 30 seconds, States 2,000,000 by default. Writes is how many writes of one object without an edit are too
	// many, 20 by default.
	Time           time.Duration
	States, Writes int
}

// bounds returns the bounds with their defaults.
func (b Bounds) bounds() explore.Bounds {
	if b.Edits+b.Crashes+b.Faults == 0 {
		b.Edits, b.Crashes, b.Faults = 2, 1, 1
	}
	return explore.Bounds{
		Edits: b.Edits, Crashes: b.Crashes, Faults: b.Faults, Time: cmp.Or(b.Time, 30*time.Second), States: b.States, Writes: b.Writes,
	}
}
