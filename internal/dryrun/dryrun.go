// Package dryrun reports what controllers would do to objects, as text and JSON, and changes
// nothing.
//
// It selects the objects, runs their controllers, which the package manager compiles, and sends the
// planned writes to the API server as dry runs.
package dryrun

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// parallel is the number of concurrent objects.
const parallel = 8

// Options select what to run. Manager is required.
type Options struct {
	// Manager connects to the cluster and the hooks. It need not run.
	Manager *manager.Manager
	// Controllers are stored controller objects. Declared are those in files, which need not be
	// stored.
	Controllers, Declared []*object.Object
	// Program is the name of the Manager's program, to run its controllers; "" for none.
	Program   string
	Selection Selection
	// CallsOnly reports which handlers would be called, without calling them.
	CallsOnly bool
	// Timeout limits the time for one object, and for the lists before it; a minute if zero.
	Timeout time.Duration
}

// Run runs the selected controllers for the selected objects. Errors of a controller or an object
// are in the report.
func Run(ctx context.Context, o Options) Report {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	var report Report
	if o.Program != "" {
		c := Controller{Name: o.Program}
		c.setError(o.planProgram(ctx, &c))
		report.Controllers = append(report.Controllers, c)
	}
	for _, stored := range o.Controllers {
		c := Controller{Name: nameOf(stored)}
		c.setError(o.planController(ctx, stored, &c))
		report.Controllers = append(report.Controllers, c)
	}
	for _, declared := range o.Declared {
		c := Controller{Name: nameOf(declared)}
		c.setError(o.planManifest(ctx, declared, &c))
		report.Controllers = append(report.Controllers, c)
	}
	report.summarize()
	report.hint(cliHint)
	return report
}

// nameOf returns text such as "compositecontroller.setpoint.dev/teams".
func nameOf(declared *object.Object) string {
	if kind, known := compile.KindOf(declared); known {
		return kind.Name + "/" + declared.Name()
	}
	return declared.Ref().String()
}

// planManifest runs a controller in a file, as the API server would store it.
func (o Options) planManifest(ctx context.Context, declared *object.Object, into *Controller) error {
	kind, known := compile.KindOf(declared)
	if !known {
		return fmt.Errorf("%s of %s is not a controller kind", declared.Kind(), declared.APIVersion())
	}
	completed, note, err := applyManifest(ctx, o.Manager, kind.Resource, declared)
	if err != nil {
		return err
	}
	if note != "" {
		into.Notes = append(into.Notes, note)
	}
	return o.planController(ctx, completed, into)
}

// planController runs one controller.
func (o Options) planController(ctx context.Context, declared *object.Object, into *Controller) error {
	compiled, err := o.Manager.Compile(ctx, declared, o.Selection.configMaps()...)
	if err != nil {
		return err
	}
	if o.CallsOnly && len(compiled.Programs) > 0 {
		compiled.Close()
		return fmt.Errorf("--calls-only is for handlers; a %s has none", declared.Kind())
	}
	return o.planCompiled(ctx, compiled, into)
}

// planProgram runs the controllers of the Manager's program.
func (o Options) planProgram(ctx context.Context, into *Controller) error {
	compiled, err := o.Manager.CompileProgram(ctx)
	if err != nil {
		return err
	}
	return o.planCompiled(ctx, compiled, into)
}

// planCompiled runs a compiled controller, and releases it.
func (o Options) planCompiled(ctx context.Context, compiled *manager.Compiled, into *Controller) error {
	r, err := start(o.Manager, compiled, o.Selection.listNamespace())
	if err != nil {
		return err
	}
	defer r.Close()
	into.setController(r)
	if err := r.waitForSync(ctx, o.Timeout); err != nil {
		return err
	}
	subjects, err := o.targets(ctx, r)
	if err != nil {
		return err
	}
	into.Objects = make([]Object, len(subjects))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, s := range subjects {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, o.Timeout)
			defer cancel()
			s.callsOnly = o.CallsOnly
			into.Objects[i] = s.dryRun(ctx, r)
			return nil
		})
	}
	_ = group.Wait() // The objects contain the errors.
	into.holdDeletions(r)
	return nil
}
