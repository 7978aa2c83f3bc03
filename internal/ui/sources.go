package ui

import (
	"context"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// sourceTime is how long a process may take to say how it is doing; the others are
// shown without it then.
const sourceTime = 5 * time.Second

// told is what one process said.
type told struct {
	Source      inspect.Source
	Process     inspect.Process
	Controllers []inspect.Controller
	// Err is why it said nothing.
	Err error
}

// ask asks all processes how they are doing, all at once.
func (v *visit) ask() []told {
	sources := v.options.Sources(v.context())
	all := make([]told, len(sources))
	var asking sync.WaitGroup
	for i, source := range sources {
		asking.Go(func() { all[i] = askOne(v.context(), source) })
	}
	asking.Wait()
	return all
}

func askOne(ctx context.Context, source inspect.Source) told {
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	t := told{Source: source}
	if t.Process, t.Err = source.Process(ctx); t.Err != nil {
		return t
	}
	t.Controllers, t.Err = source.Controllers(ctx)
	return t
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

// about are all who care for an object, and how it is doing in the care of each.
// What of that the visitor may not read is left out. Processes that do not answer are left out, and err says why of the first.
func (v *visit) about(ref inspect.Ref) (cares []inspect.Care, err error) {
	for _, source := range v.options.Sources(v.context()) {
		found, failed := source.About(v.context(), ref)
		if failed != nil && err == nil {
			err = failed
		}
		for _, care := range found {
			cares = append(cares, inspect.RedactCare(care, v.reads))
		}
	}
	return cares, err
}
