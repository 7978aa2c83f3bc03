package reach

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// ended is a process that ended without saying so, of which nothing can be read any more.
// It is there until one of its name comes.
type ended struct{ name string }

// err says that it did not take back what it had published.
func (e *ended) err() error { return fmt.Errorf("the process %s has crashed, or was killed", e.name) }

// Name implements inspect.Source.
func (e *ended) Name() string { return e.name }

// Process implements inspect.Source.
func (e *ended) Process(context.Context) (inspect.Process, error) { return inspect.Process{}, e.err() }

// Controllers implements inspect.Source.
func (e *ended) Controllers(context.Context) ([]inspect.Controller, error) { return nil, e.err() }

// Objects implements inspect.Source.
func (e *ended) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	return inspect.Page{}, e.err()
}

// About implements inspect.Source.
func (e *ended) About(context.Context, inspect.Ref) ([]inspect.Care, error) { return nil, e.err() }

// Runs implements inspect.Source.
func (e *ended) Runs(context.Context, inspect.Ref, int) ([]inspect.Run, error) { return nil, e.err() }

// Run implements inspect.Source.
func (e *ended) Run(context.Context, uint64) (inspect.Run, error) { return inspect.Run{}, e.err() }

// Plan implements inspect.Source.
func (e *ended) Plan(context.Context, string, inspect.Ref) (inspect.Plan, error) {
	return inspect.Plan{}, e.err()
}

// Await implements inspect.Source: nothing changes any more.
func (e *ended) Await(ctx context.Context, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
