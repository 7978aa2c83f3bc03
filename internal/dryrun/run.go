package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// run runs a controller that stores nothing: the API server receives its writes as dry runs.
type run struct {
	*manager.Compiled
	controller.Dependencies

	composers []*composite.Controller
	handlers  []*handler.Controller
	// loops are both.
	loops []loop
}

// loop is a controller that does not run.
type loop interface {
	Objects() []*object.Object
	Health() controller.Health
	Close()
}

// observer ignores everything.
type observer struct{}

func (observer) Ran(record.Run)                                            {}
func (observer) Deleted(record.Run)                                        {}
func (observer) Handled(string, string, hook.Reason, time.Duration, error) {}
func (observer) Event(*object.Object, hook.Event)                          {}
func (observer) OwnEvent(*object.Object, hook.Event)                       {}

// start starts a dry run for the objects of one namespace, or of all if it is empty. It shares the
// caches of the Manager. Close ends it.
func start(m *manager.Manager, compiled *manager.Compiled, namespace string) (*run, error) {
	r := &run{Compiled: compiled, Dependencies: m.DryRunTools()}
	r.Observer = observer{}
	if err := r.limit(namespace); err != nil {
		r.Close()
		return nil, err
	}
	for _, program := range r.Programs {
		one := composite.New(program, composite.Dependencies{Dependencies: r.Dependencies})
		r.composers, r.loops = append(r.composers, one), append(r.loops, one)
	}
	for _, program := range r.Handlers {
		one := handler.New(program, r.Dependencies)
		r.handlers, r.loops = append(r.handlers, one), append(r.loops, one)
	}
	return r, nil
}

// limit limits the programs of namespaced objects to one namespace, unless it is empty. It drops
// those of other namespaces.
func (r *run) limit(namespace string) error {
	if namespace == "" {
		return nil
	}
	var limits []string
	r.Programs = slices.DeleteFunc(slices.Clone(r.Programs), func(p composite.Program) bool {
		drop := p.Parent.Namespaced && p.Namespace != "" && p.Namespace != namespace
		if drop {
			limits = p.Namespaces
		}
		return drop
	})
	for i := range r.Programs {
		if p := &r.Programs[i]; p.Parent.Namespaced {
			p.Namespace = namespace
		}
	}
	r.Handlers = slices.Clone(r.Handlers)
	for i := range r.Handlers {
		p := &r.Handlers[i]
		switch {
		case !p.Resource.Namespaced:
		case len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, namespace):
			limits = p.Namespaces
		default:
			p.Namespaces = []string{namespace}
		}
	}
	if len(limits) > 0 && !slices.Contains(limits, namespace) {
		return fmt.Errorf("the controller does not handle objects in namespace %s, only in %s; select one with -n",
			namespace, strings.Join(limits, ", "))
	}
	return nil
}

// Close ends the dry run.
func (r *run) Close() {
	for _, one := range r.loops {
		one.Close()
	}
	r.Compiled.Close()
}

// waitForSync waits until all caches are synced. It returns an error when a watch fails.
func (r *run) waitForSync(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for slices.ContainsFunc(r.loops, func(one loop) bool { return !one.Health().Synced }) {
		if err := r.watchErr(); err != nil {
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

// watchErr returns the error of a failing watch, if any.
func (r *run) watchErr() error {
	for _, stat := range r.Store.Stats() {
		if stat.Err != nil {
			return fmt.Errorf("list %s: %w", stat.Selection, stat.Err)
		}
	}
	return nil
}

// withWatchErr adds the error of a failing watch to one after which ctx has ended.
func (r *run) withWatchErr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, r.watchErr())
	}
	return err
}

// objects returns the stored objects that the controller manages.
func (r *run) objects() []*object.Object { return lists.FlatMap(r.loops, loop.Objects) }

// isHandler reports whether program i is one of handlers.
func (r *run) isHandler(i int) bool { return i >= len(r.Programs) }

// includesNamespace reports whether program i includes objects of a namespace.
func (r *run) includesNamespace(i int, namespace string) bool {
	if namespace == "" || !r.kinds()[i].Namespaced {
		return true
	}
	if !r.isHandler(i) {
		only := r.Programs[i].Namespace
		return only == "" || only == namespace
	}
	limits := r.Handlers[i-len(r.Programs)].Namespaces
	return len(limits) == 0 || slices.Contains(limits, namespace)
}

// kinds returns the kind of the objects of each program.
func (r *run) kinds() []object.Resource {
	all := lists.Map(r.Programs, func(p composite.Program) object.Resource { return p.Parent })
	all = append(all, lists.Map(r.Handlers, func(p handler.Program) object.Resource { return p.Resource })...)
	return all
}

// exceedsDeletionGuard reports whether the deletion guard would hold so many deletions.
func (r *run) exceedsDeletionGuard(removals int) bool {
	if len(r.Programs) == 0 || r.Programs[0].DeletionLimit == nil {
		return false
	}
	children := 0
	for _, one := range r.composers {
		children += one.CountChildren(false)
	}
	tally := plan.DeletionCount{Pending: removals, Children: children, Holding: r.HoldsDeletions}
	if r.HoldsDeletions {
		// The deletions of objects that were not run are held, too.
		tally.Pending = max(removals, r.Programs[0].DeletionLimit.MaxDeletions+1)
	}
	return removals > 0 && r.Programs[0].DeletionLimit.Exceeded(tally)
}

// updateObject returns the object as the API server would store it.
func (r *run) updateObject(ctx context.Context, resource object.Resource, stored, wanted *object.Object) (*object.Object, error) {
	if stored.Version() == 0 {
		return wanted, nil
	}
	tried, err := r.Writer.Update(ctx, resource, wanted, "")
	if err != nil || !resource.Status {
		return tried, err
	}
	status, err := r.Writer.Update(ctx, resource, wanted, apply.StatusPart)
	if err != nil {
		return nil, err
	}
	return tried.With(status.Field("status"), "status")
}
