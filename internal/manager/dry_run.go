package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// DryRun runs a controller that stores nothing: the API server receives its writes as dry
// runs.
type DryRun struct {
	*compile.Compiled
	manager     *Manager
	controllers []*compose.Controller
	// Refused is why the controller does not run although its spec is valid; nil if it runs.
	Refused *compile.Refusal
	// holdsDeletions reports whether the controller already holds deletions.
	holdsDeletions bool
	reactions      []*handle.Controller
	writer         *apply.Writer
}

// noopObserver ignores everything.
type noopObserver struct{}

func (noopObserver) Ran(record.Run)                   {}
func (noopObserver) Deleted(record.Run)               {}
func (noopObserver) Event(*object.Object, hook.Event) {}

// DryRun starts a dry run of a controller object, which need not be stored, for the parents
// of one namespace, or of all if it is empty. The Manager need not run. Close ends the dry
// run.
func (m *Manager) DryRun(ctx context.Context, declared *object.Object, namespace string) (*DryRun, error) {
	kind, known := KindOf(declared)
	if !known {
		return nil, fmt.Errorf("%s of %s is no controller kind", declared.Kind(), declared.APIVersion())
	}
	compiled, err := kind.Compile(ctx, declared, m.compileEnvironment())
	if err != nil {
		return nil, err
	}
	if compiled.Admission != nil {
		compiled.Release()
		return nil, fmt.Errorf("%s/%s reviews requests and has nothing to plan; use `kubectl apply --dry-run=server` to call it", declared.Kind(), declared.Name())
	}
	refused, notes, err := m.refusal(ctx, declared, compiled)
	if err != nil {
		compiled.Release()
		return nil, err
	}
	compiled.Notes = append(compiled.Notes, notes...)
	r, err := m.newDryRun(compiled, namespace)
	if err == nil {
		r.holdsDeletions, r.Refused = hasHeldDeletions(storedStatus(declared).Conditions), refused
	}
	return r, err
}

// DryRunNamed starts a dry run of a controller of this process by its name. It shares the
// caches of the running controller.
func (m *Manager) DryRunNamed(ctx context.Context, name string) (*DryRun, error) {
	if i := m.controllers.goControllerIndex(goControllerKey(name)); i >= 0 {
		compiled, err := m.options.GoControllers[i].Compile(ctx, m.compileEnvironment())
		if err != nil {
			return nil, err
		}
		if compiled.Release == nil {
			compiled.Release = func() {}
		}
		r, err := m.newDryRun(compiled, "")
		if err == nil {
			r.holdsDeletions = m.controllers.health()[name].Held.Count > 0
			r.Refused, _ = errors.AsType[*compile.Refusal](m.controllers.refusalOf(goControllerKey(name)))
		}
		return r, err
	}
	kindName, object, _ := strings.Cut(name, "/")
	kinds := compile.Kinds()
	i := slices.IndexFunc(kinds, func(k compile.Kind) bool { return k.Name == kindName })
	if i < 0 {
		return nil, fmt.Errorf("controller %s: %w", name, model.ErrNotFound)
	}
	declared, err := m.Get(ctx, kinds[i].Resource, "", object)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case declared == nil:
		return nil, fmt.Errorf("controller %s: %w", name, model.ErrNotFound)
	}
	return m.DryRun(ctx, declared, "")
}

// newDryRun starts a dry run of compiled programs.
func (m *Manager) newDryRun(compiled *compile.Compiled, namespace string) (*DryRun, error) {
	r := &DryRun{Compiled: compiled, manager: m, writer: m.dryRunWriter()}
	tools := compose.Tools{Store: m.store, Writer: r.writer, Observer: noopObserver{}, Log: m.log, Resolve: m.resolve}
	for _, program := range compiled.Programs {
		program.Namespace = cmp.Or(namespace, program.Namespace)
		program.StatusOwners = m.controllers.activeStatusOwners(&program)
		r.controllers = append(r.controllers, compose.New(program, tools))
	}
	if err := r.addHandlers(namespace); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (m *Manager) dryRunWriter() *apply.Writer {
	return apply.New(m.client, apply.Options{DryRun: true}).WithManagedFields()
}

// KindOf returns the controller kind of an object.
func KindOf(o *object.Object) (compile.Kind, bool) {
	kinds := compile.Kinds()
	i := slices.IndexFunc(kinds, func(k compile.Kind) bool {
		return k.Resource.APIVersion() == o.APIVersion() && k.Resource.Kind == o.Kind()
	})
	if i < 0 {
		return compile.Kind{}, false
	}
	return kinds[i], true
}

// Close ends the dry run.
func (r *DryRun) Close() {
	for _, controller := range r.controllers {
		controller.Close()
	}
	for _, controller := range r.reactions {
		controller.Close()
	}
	r.Release()
}

// Close closes a Manager that does not run.
func (m *Manager) Close() {
	m.events.close()
	m.store.Close()
}

// WaitForSync waits until all caches are synced. It returns an error when a watch fails.
func (r *DryRun) WaitForSync(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !r.synced() {
		if err := r.manager.watchErr(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("sync caches: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (r *DryRun) synced() bool {
	return !slices.ContainsFunc(r.controllers, func(c *compose.Controller) bool { return !c.Health().Synced }) &&
		!slices.ContainsFunc(r.reactions, func(c *handle.Controller) bool { return !c.Health().Synced })
}

// watchErr returns the error of a failing watch, if any.
func (m *Manager) watchErr() error {
	for _, stat := range m.store.Stats() {
		if stat.Err != nil {
			return fmt.Errorf("list %s: %w", stat.Selection, stat.Err)
		}
	}
	return nil
}

// Parents returns the stored objects that the controller manages.
func (r *DryRun) Parents() []*object.Object {
	var all []*object.Object
	for _, controller := range r.controllers {
		all = append(all, controller.Objects()...)
	}
	for _, controller := range r.reactions {
		all = append(all, controller.Objects()...)
	}
	return all
}

// IncludesNamespace reports whether program i includes objects of a namespace.
func (r *DryRun) IncludesNamespace(i int, namespace string) bool {
	if !r.IsHandler(i) {
		only := r.Programs[i].Namespace
		return namespace == "" || only == "" || only == namespace
	}
	limits := r.Handlers[i-len(r.controllers)].Namespaces
	return namespace == "" || len(limits) == 0 || slices.Contains(limits, namespace)
}

// Kinds returns the parent kind of each program.
func (r *DryRun) Kinds() []object.Resource {
	var all []object.Resource
	for _, p := range r.Programs {
		all = append(all, p.Parent)
	}
	for _, p := range r.Handlers {
		all = append(all, p.Resource)
	}
	return all
}

// Run calls the hook of program i for an object. If given is nil, the stored object of the
// key is used.
func (r *DryRun) Run(ctx context.Context, i int, key queue.Key, given *object.Object) (compose.DryRunResult, error) {
	preview, err := r.controllers[i].DryRun(ctx, key, given)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, r.manager.watchErr())
	}
	return preview, err
}

// ExceedsDeletionGuard reports whether the deletion guard would hold so many deletions.
func (r *DryRun) ExceedsDeletionGuard(removals int) bool {
	if len(r.Programs) == 0 || r.Programs[0].DeletionLimit == nil {
		return false
	}
	children := 0
	for _, controller := range r.controllers {
		children += controller.CountAllChildren()
	}
	tally := plan.DeletionCount{Pending: removals, Children: children, Holding: r.holdsDeletions}
	if r.holdsDeletions {
		// The deletions of objects that were not run are held, too.
		tally.Pending = max(removals, r.Programs[0].DeletionLimit.MaxDeletions+1)
	}
	return removals > 0 && r.Programs[0].DeletionLimit.Exceeded(tally)
}

// Apply sends a plan to the API server as dry runs.
func (r *DryRun) Apply(ctx context.Context, p plan.Plan) []apply.Result {
	return r.writer.ApplyPlan(ctx, p)
}

// UpdateParent returns the parent as the API server would store it.
func (r *DryRun) UpdateParent(ctx context.Context, resource object.Resource, stored, wanted *object.Object) (*object.Object, error) {
	if stored.Version() == 0 {
		return wanted, nil
	}
	tried, err := r.writer.Update(ctx, resource, wanted)
	if err != nil || !resource.Status {
		return tried, err
	}
	status, err := r.writer.UpdateStatus(ctx, resource, wanted)
	if err != nil {
		return nil, err
	}
	return tried.With(status.Field("status"), "status")
}

// Get returns a stored object; nil if it does not exist.
func (m *Manager) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	stored, err := m.dryRunWriter().Get(ctx, resource, namespace, name)
	if apply.NotFound(err) {
		return nil, nil //nolint:nilnil // The object does not exist.
	}
	return stored, err
}

// DryRunApply returns the object that applying a manifest would store. Labels and annotations
// are merged, the status stays, all other fields are replaced. Where Setpoint may not write,
// or the kind or namespace does not exist yet, it returns the manifest itself with a note.
func (m *Manager) DryRunApply(ctx context.Context, resource object.Resource, given *object.Object) (o *object.Object, note string, err error) {
	stored, err := m.Get(ctx, resource, given.Namespace(), given.Name())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, "", fmt.Errorf("read %s: %w", given.Ref(), err)
	}
	wanted, write := given, m.dryRunWriter().Create
	if stored != nil {
		write = m.dryRunWriter().Update
		if wanted, err = mergeManifest(stored, given); err != nil {
			return nil, "", fmt.Errorf("merge %s into the stored object: %w", given.Ref(), err)
		}
	}
	tried, err := write(ctx, resource, wanted)
	switch {
	case err == nil:
		return tried, "", nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return wanted, "not validated by the API server: " + err.Error(), nil
	}
	return nil, "", fmt.Errorf("dry-run apply %s: %w", given.Ref(), err)
}

// mergeManifest merges a manifest into the stored object.
func mergeManifest(stored, given *object.Object) (*object.Object, error) {
	have, errHave := object.Decode(stored.JSON())
	want, err := object.Decode(given.JSON())
	if err := errors.Join(errHave, err); err != nil {
		return nil, err
	}
	metadata, _ := have["metadata"].(map[string]any)
	for _, name := range [...]string{"labels", "annotations"} {
		if added, has := object.FieldAt(want, "metadata", name).(map[string]any); has {
			former, _ := metadata[name].(map[string]any)
			metadata[name] = object.MergePatch(former, added)
		}
	}
	want["metadata"] = metadata
	delete(want, "status")
	if status, has := have["status"]; has {
		want["status"] = status
	}
	return object.Encode(want)
}
