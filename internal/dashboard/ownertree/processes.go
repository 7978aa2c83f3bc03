package ownertree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// Processes are the processes that are asked for one tree who cares for its objects: those
// that have said for which kinds they care. Who does not answer once leaves it, so that a
// process that hangs is waited for once in a tree.
type Processes struct {
	timeouts *model.Timeouts
	// controllers is what each process says of its controllers. It is asked once, if at all.
	controllers func() []model.Result[[]model.Controller]

	mu     sync.Mutex
	failed map[model.Source]error
}

// NewProcesses makes one of the processes that say what their controllers are.
func NewProcesses(patience *model.Timeouts, controllers func() []model.Result[[]model.Controller]) *Processes {
	return &Processes{timeouts: patience, controllers: sync.OnceValue(controllers), failed: map[model.Source]error{}}
}

// managing are those that care for a kind, and have answered so far.
func (p *Processes) managing(kind model.Kind) (found []model.Source) {
	results := p.controllers()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range results {
		if a.Err != nil {
			p.failed[a.Source] = a.Err
		}
		if p.failed[a.Source] == nil && handlesKind(a.Value, kind) {
			found = append(found, a.Source)
		}
	}
	return found
}

// handlesKind says whether one of some controllers is for a kind.
func handlesKind(all []model.Controller, kind model.Kind) bool {
	return slices.ContainsFunc(all, func(c model.Controller) bool {
		return slices.ContainsFunc(c.Kinds, func(k model.Kind) bool { return k.Group == kind.Group && k.Kind == kind.Kind })
	})
}

// manages says whether anybody cares for objects of a kind.
func (p *Processes) manages(kind model.Kind) bool { return len(p.managing(kind)) > 0 }

// revisionKinds are the kinds in which controllers of a kind keep what they have to remember of its
// objects.
func (p *Processes) revisionKinds(kind model.Kind) (kinds []model.Kind) {
	if p == nil {
		return nil
	}
	for _, a := range p.controllers() {
		for _, c := range a.Value {
			if len(c.RevisionKinds) > 0 && handlesKind([]model.Controller{c}, kind) {
				kinds = append(kinds, c.RevisionKinds...)
			}
		}
	}
	return kinds
}

// states are those who care for an object, as the processes say it.
func (p *Processes) states(ctx context.Context, ref model.Ref) (states []model.ObjectState) {
	ask := func(ctx context.Context, s model.Source) ([]model.ObjectState, error) { return s.States(ctx, ref) }
	for _, a := range model.QueryAll(ctx, p.timeouts, p.managing(ref.Kind), ask) {
		if a.Err != nil && !errors.Is(a.Err, model.ErrNotFound) && ctx.Err() == nil {
			p.fail(a.Source, a.Err)
		}
		states = append(states, a.Value...)
	}
	return states
}

// fail has a process not be asked any more.
func (p *Processes) fail(s model.Source, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[s] = why
}

// errors says who has left.
func (p *Processes) errors() (all []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, why := range p.failed {
		if !errors.Is(why, context.DeadlineExceeded) { // That one names the process.
			why = fmt.Errorf("the process %s does not answer: %w", s.Name(), why)
		}
		all = append(all, why)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}
