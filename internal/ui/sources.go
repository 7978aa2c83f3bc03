package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How long a process may take to say what it knows; the others are shown without it
// then. A plan may take longer, since others are asked for it.
const (
	sourceTime = 5 * time.Second
	planTime   = 70 * time.Second
)

// told is what one process said.
type told struct {
	Source      inspect.Source
	Process     inspect.Process
	Controllers []inspect.Controller
	// Err is why it said nothing.
	Err error
}

// Silence says that nothing is known of the process.
func (t told) Silence() string { return silence(t.Source, t.Err) }

// silence says that a process did not answer, and what that means for a page.
func silence(of inspect.Source, err error) string {
	text := "The process " + of.Name() + " does not answer in time."
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case strings.HasPrefix(err.Error(), "the process "+of.Name()):
		text = title(err.Error()) + "."
	default:
		text = "The process " + of.Name() + " does not answer: " + err.Error() + "."
	}
	return text + " What it does is not shown. See whether it runs, and what it logs."
}

// ask asks all processes how they are doing, all at once.
func (v *visit) ask() []told {
	answers := inspect.AskAll(v.context(), v.patience, v.options.Sources(v.context()), askOne)
	all := make([]told, len(answers))
	for i, a := range answers {
		all[i] = a.Value
		all[i].Source, all[i].Err = a.Source, a.Err
	}
	return all
}

func askOne(ctx context.Context, source inspect.Source) (t told, err error) {
	if t.Process, err = source.Process(ctx); err != nil {
		return t, err
	}
	t.Controllers, err = source.Controllers(ctx)
	return t, err
}

// source is the process of a name.
func (v *visit) source(process string) (inspect.Source, error) {
	for _, source := range v.options.Sources(v.context()) {
		if source.Name() == process {
			return source, nil
		}
	}
	return nil, missing("The process %s is not known here, or has ended.", process)
}

// each asks all processes for what they know, all at once, and says why something of it
// may be missing.
func each[T any](v *visit, ask func(context.Context, inspect.Source) (T, error)) (found []T, missing []string) {
	for _, a := range inspect.AskAll(v.context(), v.patience, v.options.Sources(v.context()), ask) {
		switch {
		case a.Err == nil:
			found = append(found, a.Value)
		case !errors.Is(a.Err, inspect.ErrNotFound):
			missing = append(missing, silence(a.Source, a.Err))
		}
	}
	return found, missing
}

// processOf is what a process says of itself.
func (v *visit) processOf(source inspect.Source) (inspect.Process, error) {
	return inspect.AskOne(v.context(), v.patience, source, func(ctx context.Context, s inspect.Source) (inspect.Process, error) {
		return s.Process(ctx)
	})
}

// controllersOf are all controllers of a process.
func (v *visit) controllersOf(source inspect.Source) ([]inspect.Controller, error) {
	return inspect.AskOne(v.context(), v.patience, source, func(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) {
		return s.Controllers(ctx)
	})
}

// about are all who care for an object, and how it is doing in the care of each, as far
// as the visitor may read it, and why some of that may be missing.
func (v *visit) about(ref inspect.Ref) (cares []inspect.Care, missing []string) {
	found, missing := each(v, func(ctx context.Context, s inspect.Source) ([]inspect.Care, error) { return s.About(ctx, ref) })
	for _, care := range slices.Concat(found...) {
		cares = append(cares, inspect.RedactCare(care, v.reads))
	}
	return cares, missing
}
