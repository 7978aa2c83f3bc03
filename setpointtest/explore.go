package setpointtest

import (
	"cmp"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint"
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

// Explore tries all orders in which events, calls, writes, crashes, faults and edits can follow each other, within
// bounds, and checks the properties of docs/test.md and the invariants of the exploration. No API server runs. The
// test fails with the shortest story of each violation, in words.
//
// It writes the stories to testdata/explore/NAME OF THE TEST. Keep the files: while they exist, Explore first makes
// their steps again, and the test fails at once if a property is still violated. Delete the file of a story whose steps
// are not possible any more.
//
// The functions of the app must depend only on their arguments and on External. Admission reviews and daemons are not
// called.
func Explore(t testing.TB, app *setpoint.App, e Exploration) {
	t.Helper()
	options, err := e.options(t.Context(), t.Name(), app)
	if err != nil {
		t.Fatalf("explore: %v", err)
	}
	stories := storiesOf(t)
	if stories.replay(t, options) {
		t.FailNow()
	}
	report, err := explore.Explore(t.Context(), options)
	if err != nil {
		t.Fatalf("explore: %v", err)
	}
	if report.Passed() {
		t.Log("\n" + report.String())
		return
	}
	t.Errorf("\n%s", report.String())
	stories.save(t, report.Violations)
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
