package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// changes enqueues the controllers that something outside of them concerns, or retries their objects.
type changes struct {
	shared

	// enqueueing is set when changes of controller objects are enqueued.
	enqueueing atomic.Bool
}

// controllerChanged returns a handler that enqueues controller objects with user edits.
// What is listed at the start is reconciled by startAll, in the order of age.
func (c *changes) controllerChanged(kind compile.Kind) func(cache.Event) {
	return func(e cache.Event) {
		if c.enqueueing.Load() && (e.Old == nil || e.New == nil || !declared.Unchanged(e.New, e.Old)) {
			c.queue.Add(queue.Key{Namespace: kind.Name, Name: e.Object().Name()}, queue.Cause{Kind: queue.ParentChanged})
		}
	}
}

// crdChanged enqueues the controllers that use a changed CRD, and all that do not run. The
// running ones were compiled with the CRDs that appear in the first list.
func (c *changes) crdChanged(e cache.Event) {
	c.CRDs.Changed(e)
	c.enqueueUsers(e, queue.RelatedChanged)
}

func (c *changes) enqueueUsers(e cache.Event, cause queue.CauseKind) {
	name := e.Object().Name()
	c.enqueue(queue.Cause{Kind: cause, Detail: crds.Resource.Kind, Object: queue.Key{Name: name}},
		func(entry *controllerEntry) bool {
			r := entry.running
			return r == nil || (e.Old != nil || len(r.Unserved) > 0) && r.UsesCRD(name)
		})
}

// enqueue enqueues the controllers that are selected.
func (c *changes) enqueue(cause queue.Cause, selects func(*controllerEntry) bool) {
	for key, e := range c.registry.all() {
		if selects(&e) {
			c.queue.Add(key, cause)
		}
	}
}

// enqueueReadersOf enqueues the running controllers whose code a watch reads; with recovered, those that use
// older code.
func (c *changes) enqueueReadersOf(selection cache.Selection, recovered bool) {
	read := selection.Resource.Ref(selection.Namespace, selection.Name)
	isRead := func(ref object.Ref) bool { return ref.Identity() == read.Identity() }
	c.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: object.ConfigMaps.Kind}, func(e *controllerEntry) bool {
		r := e.running
		return r != nil && (!recovered || e.outdated != nil) && r.Account.UserFor("") == selection.User &&
			slices.ContainsFunc(r.Code.ConfigMaps, isRead)
	})
}

// ObserveWatch retries failed writes when a watch works again: the API server is back. Where a
// watch of one namespace is forbidden, it checks whether its controllers can go on in others, and
// reports those whose code may no longer be read.
func (c *changes) ObserveWatch(selection cache.Selection, err error) {
	if apierrors.IsForbidden(err) && selection.Namespace != "" {
		c.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: selection.Resource.Kind}, func(e *controllerEntry) bool {
			return e.object != nil && e.running != nil && slices.Contains(running.KindsOf(e.running.Compiled), selection.Resource)
		})
	}
	if err == nil || apierrors.IsForbidden(err) {
		c.enqueueReadersOf(selection, err == nil)
	}
	if err != nil {
		return
	}
	for _, r := range c.registry.running() {
		for _, w := range r.Workers {
			w.RetryWrites()
		}
	}
}

// HookRestarted syncs all parents of the controllers with a hook at an address.
func (c *changes) HookRestarted(address string) {
	behind := func(full string) bool { return calls.SameHost(full, address) }
	for _, r := range c.registry.running() {
		if slices.ContainsFunc(r.HookAddresses, behind) {
			r.SyncAll(queue.Cause{Kind: queue.HookChanged})
		}
	}
}

// CredentialsRenewed retries the failed objects of a controller.
func (c *changes) CredentialsRenewed(name string) {
	for _, r := range c.registry.running() {
		if r.Name() == name {
			for _, w := range r.Workers {
				w.RetryNow()
			}
		}
	}
}

// requeueConflicting enqueues controllers that conflict with this one, or did before it changed.
func (c *changes) requeueConflicting(key queue.Key) {
	changed := c.registry.get(key).running
	c.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key},
		func(e *controllerEntry) bool { return e.key != key && affects(key, changed, e) })
}

// otherInterval is how often a dev run looks for controllers of others.
const otherInterval = 10 * time.Second

// watchOthers looks for the controllers of others in a dev run, and enqueues its own that have to yield, or need
// not any more.
func (c *changes) watchOthers(ctx context.Context) {
	if c.Others.DevRun == "" {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.Others.Refresh(ctx); err != nil {
			c.Log.Debug("controllers of others not listed", "error", failure.Text(err))
			return
		}
		c.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController"}, func(e *controllerEntry) bool {
			return e.refused(setpoint.ReasonConflictingController) ||
				e.running != nil && c.Others.Check(e.rank, e.running.Compiled) != nil
		})
	}, otherInterval)
}

// watchMetacontrollers detects Metacontrollers periodically while there are controllers that
// they could run, and enqueues these when the result changes.
func (c *changes) watchMetacontrollers(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		concerned := slices.ContainsFunc(slices.Collect(maps.Keys(c.registry.all())), c.declared.ForMetacontroller)
		if concerned && c.Metacontrollers.RefreshChanged(ctx) { // Others may have started meanwhile.
			c.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: conflicts.MetacontrollerName},
				func(e *controllerEntry) bool { return c.declared.ForMetacontroller(e.key) })
		}
	}, conflicts.DetectInterval)
}

// compileAgain compiles a controller of the program again whenever that may have another result.
func (c *changes) compileAgain(ctx context.Context, own GoController) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-own.Changed:
			c.queue.Add(goControllerKey(own.Name), queue.Cause{Kind: queue.RelatedChanged})
		}
	}
}

// affects reports whether a change of one controller concerns another: a refused one may
// now run, one that yields its status may have to store it, a running one may conflict.
func affects(key queue.Key, changed *running.Controller, other *controllerEntry) bool {
	if other.refusal != nil {
		return other.refused(setpoint.ReasonConflictingController)
	}
	r, isOwner := other.running, func(o composite.StatusOwner) bool { return o.Name == key.String() }
	return r != nil && (changed != nil && conflicts.Overlap(changed.Compiled, r.Compiled) ||
		slices.ContainsFunc(r.Programs, func(p composite.Program) bool { return slices.ContainsFunc(p.StatusOwners, isOwner) }))
}

// stillMissing reports whether everything that a controller waits for is still missing: permissions,
// or namespaces. It asks for these only, since the rest may be many namespaces.
func (c *changes) stillMissing(ctx context.Context, key queue.Key) bool {
	state := c.registry.get(key)
	missing, forbidden := errors.AsType[*rbac.MissingError](state.problem())
	if !forbidden && len(state.absent) == 0 || forbidden && !missing.Persists(ctx, c.Client) {
		return false
	}
	return len(rbac.AbsentNamespaces(ctx, c.Client, state.absent)) == len(state.absent)
}

// permissionInterval is the interval of checking permissions that may have been revoked: as long as a
// decision of the API server counts elsewhere.
const permissionInterval = identity.AllowedTTL

// watchPermissions finds running controllers that have lost permissions, and enqueues them: they stop, and
// their condition has the roles to grant.
func (c *changes) watchPermissions(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for key, e := range c.registry.all() {
			// After a Forbidden, and always those of a ServiceAccount for webhooks, which Setpoint registers with its own.
			health, runs := e.health()
			if !runs || health.Forbidden == 0 && (e.running.Admission == nil || e.running.Account.IsZero()) {
				continue
			}
			err := c.Permissions.Check(ctx, c.declared.Resource(key), e.running.Snapshot())
			if _, refused := errors.AsType[*compile.Refusal](err); refused {
				c.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: "permissions"})
			}
		}
	}, permissionInterval)
}
