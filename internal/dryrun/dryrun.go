// Package dryrun reports what controllers would do to objects, as text and JSON, and changes
// nothing.
//
// It selects the objects, runs their controllers, which the package manager compiles, and sends the
// planned writes to the API server as dry runs.
package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
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
	add := func(name string, plan func(into *Controller) error) {
		c := Controller{Name: name}
		if err := plan(&c); err != nil {
			c.Error = newProblem(err)
		}
		report.Controllers = append(report.Controllers, c)
	}
	if o.Program != "" {
		add(o.Program, func(into *Controller) error { return o.planProgram(ctx, into) })
	}
	for _, stored := range o.Controllers {
		add(nameOf(stored), func(into *Controller) error { return o.planController(ctx, stored, into) })
	}
	for _, declared := range o.Declared {
		add(nameOf(declared), func(into *Controller) error { return o.planManifest(ctx, declared, into) })
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
	namespace := o.Selection.Namespace
	if o.Selection.AllNamespaces {
		namespace = ""
	}
	r, err := start(o.Manager, compiled, namespace)
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

// ForObject returns what a controller of a running process would do to an object now, or to the
// object as a user would store it. It is the Plan of manager.Options.
func ForObject(ctx context.Context, m *manager.Manager, controller string, ref object.Ref, edited json.RawMessage) (inspect.Plan, error) {
	manifest, err := parseEdited(edited, ref)
	if err != nil {
		return inspect.Plan{}, err
	}
	compiled, err := m.CompileNamed(ctx, controller)
	if err != nil {
		return inspect.Plan{}, err
	}
	r, err := start(m, compiled, "")
	if err != nil {
		return inspect.Plan{}, err
	}
	defer r.Close()
	if err := r.waitForSync(ctx, time.Minute); err != nil {
		return inspect.Plan{}, err
	}
	l := r.loopFor(ref)
	if l == nil {
		return inspect.Plan{}, fmt.Errorf("%s does not manage this %s: %w", controller, ref.Kind.Kind, failure.ErrNotFound)
	}
	if served := l.kind.APIVersion(); manifest != nil && manifest.APIVersion() != served {
		return inspect.Plan{}, fmt.Errorf("%s reads %s in version %s, and cannot plan for an edit in version %s",
			controller, ref.Kind.Kind, served, manifest.APIVersion())
	}
	s := target{loop: l, key: objectKey(l.kind, ref.Namespace, ref.Name), manifest: manifest}
	c := Controller{Name: controller, Objects: []Object{s.dryRun(ctx, r)}}
	c.setController(r)
	c.holdDeletions(r)
	report := Report{Controllers: []Controller{c}}
	report.summarize()
	report.hint(processHint)
	return report.model()
}

// parseEdited returns an object as a user would store it; nil for none.
func parseEdited(edited json.RawMessage, ref object.Ref) (*object.Object, error) {
	if edited == nil {
		return nil, nil //nolint:nilnil // The stored object is planned.
	}
	o, err := object.Parse(edited)
	if err != nil {
		return nil, fmt.Errorf("plan for an edited %s: %w", ref.Kind.Kind, err)
	}
	if o.Name() != ref.Name || o.Namespace() != ref.Namespace {
		return nil, fmt.Errorf("plan for %s: the edited object is %s", ref, o.Ref())
	}
	return o, nil
}

// model returns the report as text and JSON.
func (r Report) model() (inspect.Plan, error) {
	var text bytes.Buffer
	if err := r.WriteText(&text, Style{Idle: true}); err != nil {
		return inspect.Plan{}, err
	}
	data, err := json.Marshal(r)
	return inspect.Plan{Text: text.String(), Report: data, Refs: r.refs()}, err
}

// refs returns all objects in the report without duplicates.
func (r Report) refs() []object.Ref {
	var all []Ref
	for _, c := range r.Controllers {
		for i := range c.Objects {
			o := &c.Objects[i]
			all = append(all, o.Ref)
			for _, call := range o.Calls {
				all = append(all, call.Unchanged...)
			}
			o.eachChange(func(c *Change) { all = append(all, c.Ref) })
		}
	}
	return lists.Map(lists.Union(nil, all), Ref.ref)
}
