package ownertree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Processes are the processes to query for one tree. A process that fails is not queried
// again, so that one that hangs delays a tree only once.
type Processes struct {
	timeouts *inspect.Timeouts
	// controllers returns the controllers of each process. It is called at most once.
	controllers func() []inspect.Result[[]inspect.Controller]

	mu     sync.Mutex
	failed map[inspect.Source]error
}

// NewProcesses returns the processes with the given controllers.
func NewProcesses(patience *inspect.Timeouts, controllers func() []inspect.Result[[]inspect.Controller]) *Processes {
	return &Processes{timeouts: patience, controllers: sync.OnceValue(controllers), failed: map[inspect.Source]error{}}
}

// managing returns the processes that manage a kind and have not failed.
func (p *Processes) managing(kind object.Kind) (found []inspect.Source) {
	results := p.controllers()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range results {
		if a.Err != nil {
			p.failed[a.Source] = a.Err
		}
		manages := func(c inspect.Controller) bool { return c.Manages(kind) }
		if p.failed[a.Source] == nil && slices.ContainsFunc(a.Value, manages) {
			found = append(found, a.Source)
		}
	}
	return found
}

// revisionKinds returns the kinds of history objects that controllers of a kind create.
func (p *Processes) revisionKinds(kind object.Kind) (kinds []object.Kind) {
	for _, a := range p.controllers() {
		for _, c := range a.Value {
			if c.Manages(kind) {
				kinds = append(kinds, c.RevisionKinds...)
			}
		}
	}
	return kinds
}

// states returns the states of an object in all processes.
func (p *Processes) states(ctx context.Context, ref object.Ref) (states []inspect.ObjectState) {
	call := func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState, error) { return s.States(ctx, ref) }
	for _, a := range inspect.QueryAll(ctx, p.timeouts, p.managing(ref.Kind), call) {
		if a.Err != nil && !errors.Is(a.Err, failure.ErrNotFound) && ctx.Err() == nil {
			p.mu.Lock()
			p.failed[a.Source] = a.Err
			p.mu.Unlock()
		}
		states = append(states, a.Value...)
	}
	return states
}

// errors returns the errors of the excluded processes.
func (p *Processes) errors() (all []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, why := range p.failed {
		if !errors.Is(why, context.DeadlineExceeded) { // A timeout names the process.
			why = fmt.Errorf("the process %s is unavailable: %w", s.Name(), why)
		}
		all = append(all, why)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}
