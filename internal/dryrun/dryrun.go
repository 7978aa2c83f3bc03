// Package dryrun reports what controllers would do to objects, as text and JSON, and changes
// nothing.
//
// It selects the objects, runs their controllers, which the package manager compiles, and sends the
// planned writes to the API server as dry runs.
package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
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
			into.Objects[i] = s.plan(ctx, r)
			return nil
		})
	}
	_ = group.Wait() // The objects contain the errors.
	into.holdDeletions(r)
	return nil
}

// suspended is the note of a suspended controller.
const suspended = "suspended: nothing happens until it is resumed"

// target is an object to run.
type target struct {
	program int
	key     queue.Key
	// manifest is the object in a file; nil for the stored one.
	manifest  *object.Object
	callsOnly bool
	notes     []string
	// err is why it cannot be run.
	err error
}

// plan runs the controller for the object.
func (s target) plan(ctx context.Context, r *run) Object {
	resource := r.kinds()[s.program]
	seen := Object{Ref: refOf(resource.Ref(s.key.Namespace, s.key.Name)), Notes: s.notes}
	if s.err != nil {
		seen.Error = newProblem(s.err)
		return seen
	}
	do := s.planCompose
	if r.isHandler(s.program) {
		do = s.planHandlers
	}
	values := do(ctx, r, &seen)
	ref, mask := seen.Ref, func(raw json.RawMessage) json.RawMessage { return values.JSON(raw, false) }
	seen = redact.EachText(seen, values.Text, mask)
	seen.Ref, seen.held = ref, redact.EachText(seen.held, values.Text, mask)
	return seen
}

// planCompose calls the hook and sends its plan as dry runs. It returns the values of the Secrets that it has seen.
func (s target) planCompose(ctx context.Context, r *run, into *Object) *redact.Values {
	preview, err := r.composers[s.program].DryRun(ctx, s.key, s.manifest)
	if err != nil {
		into.Error = newProblem(r.withWatchErr(ctx, err))
	}
	if preview.Parent == nil {
		return preview.Secrets
	}
	into.Hook, into.Skipped = preview.Hook, preview.SkipReason
	into.Changes = dryRunPlan(ctx, r, preview.Plan, into.setResponse(preview.Response))
	into.markRemovals(preview.Removals)
	if err := into.diffObject(ctx, r, r.kinds()[s.program], preview.Stored, preview.Parent); err != nil && into.Error == nil {
		into.Error = newProblem(err)
	}
	if preview.Held != nil {
		var held Object
		if err := held.diffObject(ctx, r, r.kinds()[s.program], preview.Stored, preview.Held); err != nil {
			into.Error = newProblem(err)
		}
		into.held = held.Fields
	}
	return preview.Secrets
}

// diffObject returns the changes of the object itself.
func (o *Object) diffObject(ctx context.Context, r *run, resource object.Resource, stored, wanted *object.Object) error {
	if wanted.Digest() == stored.Digest() {
		return nil
	}
	tried, err := r.updateObject(ctx, resource, stored, wanted)
	if err != nil {
		return fmt.Errorf("the API server rejects the update of %s: %w", stored.Ref(), err)
	}
	changes, err := plan.Compare(stored, tried)
	o.Fields = fields(changes)
	return err
}
