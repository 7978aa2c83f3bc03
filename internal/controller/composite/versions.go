package composite

import (
	"context"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// Finalizes reports whether parents get the finalizer, in either version.
func (p *Program) Finalizes() bool {
	return p.Finalize != nil || p.Former != nil && p.Former.Finalize != nil
}

// Customizes reports whether requests have related objects, in either version.
func (p *Program) Customizes() bool {
	return p.Customize != nil || p.Former != nil && p.Former.Customize != nil
}

// newRouter returns what chooses the version of the hooks for each parent.
func (c *Controller) newRouter() *router.Router {
	p := &c.program
	return router.New(c.Base, router.Options{
		Logic:  controller.Logic{Version: p.Version, Sync: p.Sync, Finalize: p.Finalize, Customize: p.Customize},
		Former: p.Former, Assignment: c.tools.Assignment, Reported: c.tools.Reported, PhaseOf: c.PhaseOf, Now: c.tools.Now,
		ControllerType: p.controllerType(), CustomizeRequest: p.customizeRequest, Related: c.comparedRelated,
		CheckReads: func(ctx context.Context, parent *object.Object, reads []related.Read) error {
			return related.CheckReads(ctx, c.tools.Access, p.Account.UserFor(parent.Namespace()), reads)
		},
		SyncFailure: func(err error) error { return hookFailure("sync", err) },
	})
}

// Rollout returns what a rollout knows of the parents.
func (c *Controller) Rollout() rollout.Observed { return c.Router.Observed() }

// controllerType is that of requests and responses.
func (p *Program) controllerType() hook.ControllerType {
	if p.isDecorator() {
		return hook.Decorator
	}
	return hook.Composite
}
