package explore

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
)

// Options of Explore. Controllers, Server and Objects are required.
type Options struct {
	state.System

	// Names are those of the controllers, for stories.
	Names  []string
	Bounds Bounds
	// Unchecked are properties that are not meant to hold.
	Unchecked []property.Property
	// Memo has the responses of hooks, for the report; nil if there are none.
	Memo *loop.Memo
	// Restart starts the processes of the hooks once more, until stop is called; nil if that is not possible.
	Restart func(ctx context.Context) (programs loop.Programs, stop func(), err error)
	// Version is that of Setpoint, and Files are the digests of what is explored, for stories.
	Version string
	Files   map[string]string
	// Together explores objects together that have nothing in common.
	Together bool
	// Workers defaults to the number of cores.
	Workers int
	// NotVaried says what none of the edits changes, for the report.
	NotVaried []string
	// Passes are further searches with bounds of their own, whose violations are reported too.
	Passes []Pass
	// Progress is called about every second, from one goroutine.
	Progress func(Progress)

	// shared says what objects have in common that might have been explored apart.
	shared string
}

// Pass is a further search.
type Pass struct {
	// Name says what it explores, for the report.
	Name    string
	Options Options
}

// Bounds limit a search. Budgets of zero mean none of these steps; the other zeros mean the defaults.
type Bounds struct {
	Edits   int `json:"edits"`
	Crashes int `json:"crashes"`
	Faults  int `json:"faults"`
	// Time defaults to 30s.
	Time time.Duration `json:"time,omitempty"`
	// States defaults to 2,000,000.
	States int `json:"states,omitempty"`
	// Memory is the heap in bytes at which the search stops; 2 GiB by default.
	Memory uint64 `json:"memory,omitempty"`
	// Writes is how many writes of one object without an edit are too many; 20 by default.
	Writes int `json:"writes,omitempty"`
}

// DefaultBoundOfTime is how long a search may take.
const DefaultBoundOfTime = 30 * time.Second

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Bounds.Time = cmp.Or(o.Bounds.Time, DefaultBoundOfTime)
	o.Bounds.States = cmp.Or(o.Bounds.States, 2_000_000)
	o.Bounds.Memory = cmp.Or(o.Bounds.Memory, 2<<30)
	o.Bounds.Writes = cmp.Or(o.Bounds.Writes, 20)
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// MaxBudget is the most edits, crashes or faults.
const MaxBudget = 20

// budget returns the steps that are limited.
func (b Bounds) budget() state.Budget {
	return state.Budget{Edits: uint8(b.Edits), Crashes: uint8(b.Crashes), Faults: uint8(b.Faults)}
}

// Check reports budgets that make no sense, by the names of their fields.
func (b Bounds) Check() error {
	for _, budget := range []struct {
		name  string
		value int
	}{{"edits", b.Edits}, {"crashes", b.Crashes}, {"faults", b.Faults}} {
		if budget.value < 0 || budget.value > MaxBudget {
			return fmt.Errorf("bounds.%s: must be from 0 to %d, is %d", budget.name, MaxBudget, budget.value)
		}
	}
	return nil
}
