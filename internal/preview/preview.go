// Package preview says what controllers would do about objects, in words for
// people and for programs, and changes nothing.
//
// Here live choosing the objects, asking for each what would be done, having the
// API server try that, and the two forms of the answer: text and JSON. What would
// be done is decided where it is decided for good, in the rooms engine and plan;
// the wiring is the host's. The command line calls, and who inspects a process.
package preview

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// parallel is how many objects are looked at side by side.
const parallel = 8

// Options say what to look at. Host is needed.
type Options struct {
	// Host reaches the cluster and the hooks. It need not run.
	Host *host.Host
	// Controllers are controller objects that are stored, Declared those of files,
	// which are looked at as if they were.
	Controllers, Declared []*object.Object
	Choice                Choice
	// Unasked leaves handlers alone: who would be told is all there is to say.
	Unasked bool
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
		c.fail(o.rehearse(ctx, stored, &c))
		report.Controllers = append(report.Controllers, c)
	}
	for _, declared := range o.Declared {
		c := Controller{Name: nameOf(declared)}
		c.fail(o.rehearseDeclared(ctx, declared, &c))
		report.Controllers = append(report.Controllers, c)
	}
	report.sum()
	report.hint(asking)
	return report
}

// nameOf is such as "compositecontroller.setpoint.dev/teams".
func nameOf(declared *object.Object) string {
	if kind, known := host.KindOf(declared); known {
		return kind.Name + "/" + declared.Name()
	}
	return declared.Ref().String()
}

// rehearseDeclared looks at those of a controller of a file, completed and checked
// by the API server.
func (o Options) rehearseDeclared(ctx context.Context, declared *object.Object, into *Controller) error {
	kind, known := host.KindOf(declared)
	if !known {
		return fmt.Errorf("%s of %s is no kind of controller", declared.Kind(), declared.APIVersion())
	}
	completed, note, err := o.Host.Complete(ctx, kind.Resource, declared)
	if err != nil {
		return err
	}
	if note != "" {
		into.Notes = append(into.Notes, note)
	}
	return o.rehearse(ctx, completed, into)
}

// rehearse looks at the objects of one controller.
func (o Options) rehearse(ctx context.Context, declared *object.Object, into *Controller) error {
	r, err := o.Host.Rehearse(ctx, declared, o.Choice.namespace())
	if err != nil {
		return err
	}
	defer r.Close()
	into.ofRehearsal(r)
	if o.Unasked && len(r.Programs) > 0 {
		return fmt.Errorf("--calls-only is for handlers: a %s has a hook that is asked what should be, and nothing else is known of it", declared.Kind())
	}
	if err := await(ctx, r, o.Timeout); err != nil {
		return err
	}
	subjects, err := o.subjects(ctx, r)
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
			s.unasked = o.Unasked
			into.Objects[i] = s.look(ctx, r)
			return nil
		})
	}
	_ = group.Wait() // The errors are in the objects.
	into.hold(r)
	return nil
}

// suspended is the note at a controller that is.
const suspended = "suspended: nothing of this is done before it is no longer"

func await(ctx context.Context, r *host.Rehearsal, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.Await(ctx)
}

// subject is one object to look at.
type subject struct {
	program int
	key     queue.Key
	// given is an object that is not, or not so, stored.
	given *object.Object
	// unasked leaves handlers alone.
	unasked bool
	notes   []string
	// wrong is why it cannot be looked at.
	wrong error
}

// look asks what would be done about the object, and has that tried.
func (s subject) look(ctx context.Context, r *host.Rehearsal) Object {
	resource := r.Kinds()[s.program]
	seen := Object{Ref: Ref{APIVersion: resource.APIVersion(), Kind: resource.Kind, Namespace: s.key.Namespace, Name: s.key.Name}, Notes: s.notes}
	if s.wrong != nil {
		seen.Error = problem(s.wrong)
		return seen
	}
	if r.Handles(s.program) {
		s.lookHandlers(ctx, r, &seen)
		return seen
	}
	s.lookHook(ctx, r, &seen)
	return seen
}

// lookHook asks the hook what should be, and has that tried.
func (s subject) lookHook(ctx context.Context, r *host.Rehearsal, into *Object) {
	preview, err := r.Preview(ctx, s.program, s.key, s.given)
	if err != nil {
		into.Error = problem(err)
		return
	}
	into.Asked, into.Untouched = preview.Asked, preview.Untouched
	desired := into.tell(preview.Reply)
	for _, p := range []plan.Plan{preview.Claims, preview.Revisions, preview.Plan} {
		into.Changes = append(into.Changes, try(ctx, r, p, desired)...)
	}
	into.count(preview.Removals)
	if err := into.compareSelf(ctx, r, r.Kinds()[s.program], preview.Stored, preview.Parent); err != nil {
		into.Error = problem(err)
	}
	if preview.Held != nil {
		var held Object
		if err := held.compareSelf(ctx, r, r.Kinds()[s.program], preview.Stored, preview.Held); err != nil {
			into.Error = problem(err)
		}
		into.held = held.Fields
	}
}

// compareSelf finds what would change in the object itself.
func (o *Object) compareSelf(ctx context.Context, r *host.Rehearsal, resource object.Resource, stored, wanted *object.Object) error {
	if wanted.Digest() == stored.Digest() {
		return nil
	}
	tried, err := r.TryParent(ctx, resource, stored, wanted)
	if err != nil {
		return fmt.Errorf("the API server refuses what would be stored of %s: %w", stored.Ref(), err)
	}
	changes, err := plan.Compare(stored, tried)
	o.Fields = fields(changes)
	return err
}
