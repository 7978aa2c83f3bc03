package discovery

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// crashedProcess is a process that stopped without removing its entry. It is listed until a
// process with the same name starts.
type crashedProcess struct{ name string }

// err is the error of all methods.
func (e *crashedProcess) err() error {
	return fmt.Errorf("the process %s crashed or was killed", e.name)
}

// Name implements model.Source.
func (e *crashedProcess) Name() string { return e.name }

// Process implements model.Source.
func (e *crashedProcess) Process(context.Context) (model.Process, error) {
	return model.Process{}, e.err()
}

// Controllers implements model.Source.
func (e *crashedProcess) Controllers(context.Context) ([]model.Controller, error) {
	return nil, e.err()
}

// Objects implements model.Source.
func (e *crashedProcess) Objects(context.Context, string, model.Query) (model.Page, error) {
	return model.Page{}, e.err()
}

// States implements model.Source.
func (e *crashedProcess) States(context.Context, object.Ref) ([]model.ObjectState, error) {
	return nil, e.err()
}

// Runs implements model.Source.
func (e *crashedProcess) Runs(context.Context, object.Ref, int) ([]model.Run, error) {
	return nil, e.err()
}

// Run implements model.Source.
func (e *crashedProcess) Run(context.Context, uint64) (model.Run, error) { return model.Run{}, e.err() }

// Plan implements model.Source.
func (e *crashedProcess) Plan(context.Context, string, object.Ref) (model.Plan, error) {
	return model.Plan{}, e.err()
}

// Await implements model.Source. Nothing changes anymore.
func (e *crashedProcess) Await(ctx context.Context, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
