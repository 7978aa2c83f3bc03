package reach

import (
	"context"
	"errors"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// errEnded says that a process is gone which did not take back what it had published.
var errEnded = errors.New("it has crashed, or was killed")

// ended is a process that ended without saying so, of which nothing can be read any more.
// It is there until one of its name comes.
type ended struct{ name string }

// Name implements inspect.Source.
func (e *ended) Name() string { return e.name }

// Process implements inspect.Source.
func (e *ended) Process(context.Context) (inspect.Process, error) { return inspect.Process{}, errEnded }

// Controllers implements inspect.Source.
func (e *ended) Controllers(context.Context) ([]inspect.Controller, error) { return nil, errEnded }

// Objects implements inspect.Source.
func (e *ended) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	return inspect.Page{}, errEnded
}

// About implements inspect.Source.
func (e *ended) About(context.Context, inspect.Ref) ([]inspect.Care, error) { return nil, errEnded }

// Runs implements inspect.Source.
func (e *ended) Runs(context.Context, inspect.Ref, int) ([]inspect.Run, error) { return nil, errEnded }

// Run implements inspect.Source.
func (e *ended) Run(context.Context, uint64) (inspect.Run, error) { return inspect.Run{}, errEnded }

// Plan implements inspect.Source.
func (e *ended) Plan(context.Context, string, inspect.Ref) (inspect.Plan, error) {
	return inspect.Plan{}, errEnded
}

// Await implements inspect.Source: nothing changes any more.
func (e *ended) Await(ctx context.Context, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
