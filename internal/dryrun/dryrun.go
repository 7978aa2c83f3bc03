// Package dryrun says what controllers would do about objects, in words for
// people and for programs, and changes nothing.
//
// Here live choosing the objects, asking for each what would be done, having the
// API server try that, and the two forms of the answer: text and JSON. What would
// be done is decided where it is decided for good, in the rooms engine and plan;
// the wiring is the host's. The command line calls, and who inspects a process.
package dryrun

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// parallel is how many objects are looked at side by side.
const parallel = 8

// Options say what to look at. Host is needed.
type Options struct {
	// Manager reaches the cluster and the hooks. It need not run.
	Manager *manager.Manager
	// Controllers are controller objects that are stored, Declared those of files,
	// which are looked at as if they were.
	Controllers, Declared []*object.Object
	Selection             Selection
	// CallsOnly leaves handlers alone: who would be told is all there is to say.
	CallsOnly bool
	// Timeout bounds the work on one object, and the listing before it; a minute
	// if zero.
	Timeout time.Duration
}

// Run looks at all that is chosen. What goes wrong with a controller or an object
// is told in its place of the report.
func Run(ctx context.Context, o Options) Report {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	var report Report
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

// nameOf is such as "compositecontroller.setpoint.dev/teams".
func nameOf(declared *object.Object) string {
	if kind, known := manager.KindOf(declared); known {
		return kind.Name + "/" + declared.Name()
	}
	return declared.Ref().String()
}

// planManifest looks at those of a controller of a file, completed and checked
// by the API server.
func (o Options) planManifest(ctx context.Context, declared *object.Object, into *Controller) error {
	kind, known := manager.KindOf(declared)
	if !known {
		return fmt.Errorf("%s of %s is no kind of controller", declared.Kind(), declared.APIVersion())
	}
	completed, note, err := o.Manager.DryRunApply(ctx, kind.Resource, declared)
	if err != nil {
		return err
	}
	if note != "" {
		into.Notes = append(into.Notes, note)
	}
	return o.planController(ctx, completed, into)
}

// planController looks at the objects of one controller.
func (o Options) planController(ctx context.Context, declared *object.Object, into *Controller) error {
	r, err := o.Manager.DryRun(ctx, declared, o.Selection.listNamespace())
	if err != nil {
		return err
	}
	defer r.Close()
	into.setController(r)
	if o.CallsOnly && len(r.Programs) > 0 {
		return fmt.Errorf("--calls-only is for handlers: a %s has a hook that is asked what should be, and nothing else is known of it", declared.Kind())
	}
	if err := waitForSync(ctx, r, o.Timeout); err != nil {
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
	_ = group.Wait() // The errors are in the objects.
	into.holdDeletions(r)
	return nil
}

// suspended is the note at a controller that is.
const suspended = "suspended: nothing of this is done before it is no longer"

func waitForSync(ctx context.Context, r *manager.DryRun, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.WaitForSync(ctx)
}

// target is one object to look at.
type target struct {
	program int
	key     queue.Key
	// manifest is an object that is not, or not so, stored.
	manifest *object.Object
	// callsOnly leaves handlers alone.
	callsOnly bool
	notes     []string
	// err is why it cannot be looked at.
	err error
}

// plan asks what would be done about the object, and has that tried.
func (s target) plan(ctx context.Context, r *manager.DryRun) Object {
	resource := r.Kinds()[s.program]
	seen := Object{Ref: Ref{APIVersion: resource.APIVersion(), Kind: resource.Kind, Namespace: s.key.Namespace, Name: s.key.Name}, Notes: s.notes}
	if s.err != nil {
		seen.Error = newProblem(s.err)
		return seen
	}
	if r.IsHandler(s.program) {
		s.planHandlers(ctx, r, &seen)
		return seen
	}
	s.planCompose(ctx, r, &seen)
	return seen
}

// planCompose asks the hook what should be, and has that tried.
func (s target) planCompose(ctx context.Context, r *manager.DryRun, into *Object) {
	preview, err := r.Run(ctx, s.program, s.key, s.manifest)
	if err != nil {
		into.Error = newProblem(err)
		return
	}
	into.Hook, into.Skipped = preview.Hook, preview.SkipReason
	desired := into.setResponse(preview.Response)
	for _, p := range []plan.Plan{preview.Claims, preview.Revisions, preview.Plan} {
		into.Changes = append(into.Changes, dryRunPlan(ctx, r, p, desired)...)
	}
	into.markRemovals(preview.Removals)
	if err := into.diffObject(ctx, r, r.Kinds()[s.program], preview.Stored, preview.Parent); err != nil {
		into.Error = newProblem(err)
	}
	if preview.Held != nil {
		var held Object
		if err := held.diffObject(ctx, r, r.Kinds()[s.program], preview.Stored, preview.Held); err != nil {
			into.Error = newProblem(err)
		}
		into.held = held.Fields
	}
}

// diffObject finds what would change in the object itself.
func (o *Object) diffObject(ctx context.Context, r *manager.DryRun, resource object.Resource, stored, wanted *object.Object) error {
	if wanted.Digest() == stored.Digest() {
		return nil
	}
	tried, err := r.UpdateParent(ctx, resource, stored, wanted)
	if err != nil {
		return fmt.Errorf("the API server refuses what would be stored of %s: %w", stored.Ref(), err)
	}
	changes, err := plan.Compare(stored, tried)
	o.Fields = fields(changes)
	return err
}
