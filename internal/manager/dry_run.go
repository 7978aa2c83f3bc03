package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"

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

// DryRun is a controller that watches and is asked what it would do, and does
// none of it: what it writes is tried by the API server, and not stored.
type DryRun struct {
	*compile.Compiled
	manager     *Manager
	controllers []*compose.Controller
	// Refused is why the controller does not run, although its spec is understood; nil
	// if it does.
	Refused *compile.Refusal
	// holdsDeletions says that the controller holds deletions already.
	holdsDeletions bool
	reactions      []*handle.Controller
	writer         *apply.Writer
}

// noopObserver is told of everything and passes on nothing.
type noopObserver struct{}

func (noopObserver) Ran(record.Run)                   {}
func (noopObserver) Deleted(record.Run)               {}
func (noopObserver) Event(*object.Object, hook.Event) {}

// DryRun opens a rehearsal of a controller object, which need not be stored. Of
// namespaced parents those of one namespace are looked at; all if it is empty. A
// Host that rehearses need not run. Close ends the rehearsal.
func (m *Manager) DryRun(ctx context.Context, declared *object.Object, namespace string) (*DryRun, error) {
	kind, known := KindOf(declared)
	if !known {
		return nil, fmt.Errorf("%s of %s is no kind of controller", declared.Kind(), declared.APIVersion())
	}
	compiled, err := kind.Compile(ctx, declared, m.compileEnvironment())
	if err != nil {
		return nil, err
	}
	if compiled.Admission != nil {
		compiled.Release()
		return nil, fmt.Errorf("%s/%s answers what is asked of it and has nothing to plan; `kubectl apply --dry-run=server` asks it", declared.Kind(), declared.Name())
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

// DryRunNamed opens a rehearsal of a controller by its name, as it is in this
// process: one of a Go program, or of a stored object. It looks where the controller
// itself does, so that what that has cached serves both.
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
		return nil, fmt.Errorf("the controller %s: %w", name, model.ErrNotFound)
	}
	declared, err := m.Get(ctx, kinds[i].Resource, "", object)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case declared == nil:
		return nil, fmt.Errorf("the controller %s: %w", name, model.ErrNotFound)
	}
	return m.DryRun(ctx, declared, "")
}

// newDryRun opens a rehearsal of what is compiled.
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

// KindOf is the kind of controllers that an object is one of.
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

// Close ends the rehearsal.
func (r *DryRun) Close() {
	for _, controller := range r.controllers {
		controller.Close()
	}
	for _, controller := range r.reactions {
		controller.Close()
	}
	r.Release()
}

// Close ends a Host that was not run.
func (m *Manager) Close() {
	m.events.close()
	m.store.Close()
}

// WaitForSync waits until everything there is to look at has been listed. It gives up
// when a watch does not work: nobody is there to mend it meanwhile.
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
			return fmt.Errorf("list what there is: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (r *DryRun) synced() bool {
	return !slices.ContainsFunc(r.controllers, func(c *compose.Controller) bool { return !c.Health().Synced }) &&
		!slices.ContainsFunc(r.reactions, func(c *handle.Controller) bool { return !c.Health().Synced })
}

// watchErr is why a watch does not work, if one does not.
func (m *Manager) watchErr() error {
	for _, stat := range m.store.Stats() {
		if stat.Err != nil {
			return fmt.Errorf("list %s: %w", stat.Selection, stat.Err)
		}
	}
	return nil
}

// Parents are the stored objects in the care of the controller.
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

// IncludesNamespace says whether the i-th program looks at objects of a namespace.
func (r *DryRun) IncludesNamespace(i int, namespace string) bool {
	if !r.IsHandler(i) {
		only := r.Programs[i].Namespace
		return namespace == "" || only == "" || only == namespace
	}
	limits := r.Handlers[i-len(r.controllers)].Namespaces
	return namespace == "" || len(limits) == 0 || slices.Contains(limits, namespace)
}

// Kinds are those of the objects in the care of the controller, one for each program.
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

// Run asks the hook about a parent of the i-th kind. One that is given
// need not be stored; without one, that of the key is looked up.
func (r *DryRun) Run(ctx context.Context, i int, key queue.Key, given *object.Object) (compose.DryRunResult, error) {
	preview, err := r.controllers[i].DryRun(ctx, key, given)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, r.manager.watchErr())
	}
	return preview, err
}

// ExceedsDeletionGuard says that deletions are too many for the deletion guard, of so many that the
// responses for all objects that were looked at ask for.
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
		// Those that were not looked at are held, too.
		tally.Pending = max(removals, r.Programs[0].DeletionLimit.MaxDeletions+1)
	}
	return removals > 0 && r.Programs[0].DeletionLimit.Exceeded(tally)
}

// Apply has the API server say what would come of a plan.
func (r *DryRun) Apply(ctx context.Context, p plan.Plan) []apply.Result {
	return r.writer.ApplyPlan(ctx, p)
}

// UpdateParent has the API server say what would become of a parent: of all but
// its status, and of its status where that is written for itself.
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

// Get reads a stored object; nil if there is none.
func (m *Manager) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	stored, err := m.dryRunWriter().Get(ctx, resource, namespace, name)
	if apply.NotFound(err) {
		return nil, nil //nolint:nilnil // Nothing is there, which is an answer.
	}
	return stored, err
}

// DryRunApply makes of an object of a file what it would be once stored: the API
// server is asked, which completes and checks it. Labels and annotations are added to those
// that are there, the status stays, all else is replaced. Where one may not
// write, or where its kind or namespace is yet to be made, it is taken as given,
// and the note says so.
func (m *Manager) DryRunApply(ctx context.Context, resource object.Resource, given *object.Object) (o *object.Object, note string, err error) {
	stored, err := m.Get(ctx, resource, given.Namespace(), given.Name())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, "", fmt.Errorf("read %s: %w", given.Ref(), err)
	}
	wanted, write := given, m.dryRunWriter().Create
	if stored != nil {
		write = m.dryRunWriter().Update
		if wanted, err = mergeManifest(stored, given); err != nil {
			return nil, "", fmt.Errorf("lay %s over the stored one: %w", given.Ref(), err)
		}
	}
	tried, err := write(ctx, resource, wanted)
	switch {
	case err == nil:
		return tried, "", nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return wanted, "taken as given: " + err.Error(), nil
	}
	return nil, "", fmt.Errorf("the API server refuses %s: %w", given.Ref(), err)
}

// mergeManifest lays an object of a file over the stored one.
func mergeManifest(stored, given *object.Object) (*object.Object, error) {
	var have, want map[string]any
	if err := errors.Join(utiljson.Unmarshal(stored.JSON(), &have), utiljson.Unmarshal(given.JSON(), &want)); err != nil {
		return nil, err
	}
	metadata, _ := have["metadata"].(map[string]any)
	said, _ := want["metadata"].(map[string]any)
	for _, name := range [...]string{"labels", "annotations"} {
		if said[name] != nil {
			metadata[name] = mergeMaps(metadata[name], said[name])
		}
	}
	want["metadata"] = metadata
	delete(want, "status")
	if status, has := have["status"]; has {
		want["status"] = status
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}

// mergeMaps are the members of both, the later ones counting.
func mergeMaps(a, b any) map[string]any {
	all := map[string]any{}
	for _, each := range [...]any{a, b} {
		members, _ := each.(map[string]any)
		maps.Copy(all, members)
	}
	return all
}
