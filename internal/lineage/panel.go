package lineage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Panel are the processes that are asked for one tree who cares for its objects: those
// that have said for which kinds they care. Who does not answer once leaves it, so that a
// process that hangs is waited for once in a tree.
type Panel struct {
	patience *inspect.Patience
	// meet is what each process says of its controllers. It is asked once, if at all.
	meet func() []inspect.Answer[[]inspect.Controller]

	mu   sync.Mutex
	left map[inspect.Source]error
}

// NewPanel makes one of the processes that say what their controllers are.
func NewPanel(patience *inspect.Patience, controllers func() []inspect.Answer[[]inspect.Controller]) *Panel {
	return &Panel{patience: patience, meet: sync.OnceValue(controllers), left: map[inspect.Source]error{}}
}

// caring are those that care for a kind, and have answered so far.
func (p *Panel) caring(kind inspect.Kind) (found []inspect.Source) {
	met := p.meet()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range met {
		if a.Err != nil {
			p.left[a.Source] = a.Err
		}
		if p.left[a.Source] == nil && handles(a.Value, kind) {
			found = append(found, a.Source)
		}
	}
	return found
}

// handles says whether one of some controllers is for a kind.
func handles(all []inspect.Controller, kind inspect.Kind) bool {
	return slices.ContainsFunc(all, func(c inspect.Controller) bool {
		return slices.ContainsFunc(c.Kinds, func(k inspect.Kind) bool { return k.Group == kind.Group && k.Kind == kind.Kind })
	})
}

// cares says whether anybody cares for objects of a kind.
func (p *Panel) cares(kind inspect.Kind) bool { return len(p.caring(kind)) > 0 }

// kept are the kinds in which controllers of a kind keep what they have to remember of its
// objects.
func (p *Panel) kept(kind inspect.Kind) (kinds []inspect.Kind) {
	if p == nil {
		return nil
	}
	for _, a := range p.meet() {
		for _, c := range a.Value {
			if len(c.Keeps) > 0 && handles([]inspect.Controller{c}, kind) {
				kinds = append(kinds, c.Keeps...)
			}
		}
	}
	return kinds
}

// about are those who care for an object, as the processes say it.
func (p *Panel) about(ctx context.Context, ref inspect.Ref) (cares []inspect.Care) {
	ask := func(ctx context.Context, s inspect.Source) ([]inspect.Care, error) { return s.About(ctx, ref) }
	for _, a := range inspect.AskAll(ctx, p.patience, p.caring(ref.Kind), ask) {
		if a.Err != nil && !errors.Is(a.Err, inspect.ErrNotFound) && ctx.Err() == nil {
			p.leave(a.Source, a.Err)
		}
		cares = append(cares, a.Value...)
	}
	return cares
}

// leave has a process not be asked any more.
func (p *Panel) leave(s inspect.Source, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left[s] = why
}

// silent says who has left.
func (p *Panel) silent() (all []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, why := range p.left {
		if !errors.Is(why, context.DeadlineExceeded) { // That one names the process.
			why = fmt.Errorf("the process %s does not answer: %w", s.Name(), why)
		}
		all = append(all, why)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}
