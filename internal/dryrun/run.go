package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// run runs a controller that stores nothing: the API server receives its writes as dry runs.
type run struct {
	*manager.Compiled
	controller.Dependencies

	loops []*loop
}

// loop is a controller of one kind that does not run. One of compose and handle is set.
type loop struct {
	*controller.Base

	kind object.Resource
	// namespaces limit the objects of a namespaced kind; empty for all.
	namespaces []string
	compose    *composite.Controller
	handle     *handler.Controller
	close      func()
}

// includes reports whether objects of a namespace are among those of the loop.
func (l *loop) includes(namespace string) bool {
	return namespace == "" || !l.kind.Namespaced || len(l.namespaces) == 0 || slices.Contains(l.namespaces, namespace)
}

// start starts a dry run for the objects of one namespace, or of all if it is empty. It shares the
// caches of the Manager. Close ends it.
func start(m *manager.Manager, compiled *manager.Compiled, namespace string) (*run, error) {
	r := &run{Compiled: compiled, Dependencies: m.DryRunTools()}
	r.Observer = controller.Unobserved{}
	if err := r.limit(namespace); err != nil {
		r.Close()
		return nil, err
	}
	for _, p := range r.Programs {
		c := composite.New(p, composite.Dependencies{Dependencies: r.Dependencies})
		l := &loop{Base: c.Base, kind: p.Parent, compose: c, close: c.Close}
		if p.Namespace != "" {
			l.namespaces = []string{p.Namespace}
		}
		r.loops = append(r.loops, l)
	}
	for _, p := range r.Handlers {
		c := handler.New(p, r.Dependencies)
		r.loops = append(r.loops, &loop{Base: c.Base, kind: p.Resource, namespaces: p.Namespaces, handle: c, close: c.Close})
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
	for _, l := range r.loops {
		l.close()
	}
	r.Compiled.Close()
}

// waitForSync waits until all caches are synced. It returns an error when a watch fails.
func (r *run) waitForSync(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for slices.ContainsFunc(r.loops, func(l *loop) bool { return !l.Health().Synced }) {
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

// suspended is the note of a suspended controller.
const suspended = "suspended: nothing happens until it is resumed"

// setController copies what is known about the controller.
func (c *Controller) setController(r *run) {
	c.Notes = append(c.Notes, r.Notes...)
	if r.Suspended {
		c.Notes = append(c.Notes, suspended)
	}
	if r.Refused != nil {
		c.Refused = &Refused{r.Refused.Reason, r.Refused.Error()}
	}
}

// loopFor returns the loop of an object; nil for none.
func (r *run) loopFor(ref object.Ref) *loop {
	for _, l := range r.loops {
		if l.kind.GroupKind() == ref.GroupKind() && l.includes(ref.Namespace) {
			return l
		}
	}
	return nil
}

// exceedsDeletionGuard reports whether the deletion guard would hold so many deletions.
func (r *run) exceedsDeletionGuard(removals int) bool {
	if len(r.Programs) == 0 || r.Programs[0].DeletionLimit == nil {
		return false
	}
	children := 0
	for _, l := range r.loops {
		if l.compose != nil {
			children += l.compose.CountChildren(false)
		}
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
