// Package handler calls handlers when objects change, and writes their responses.
//
// The package decides which handlers to call, records what each has handled, runs timers and
// daemons, retries, and writes responses. It does not know how a hook is reached or what a
// controller's spec looks like. Package composite has the way from a parent to its children.
//
// The host makes a Controller of every Program; package compile and the SDK make Programs.
package handler

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// checkReads returns an error unless the ServiceAccount may read the object and the kinds that it owns: the
// caches have what Setpoint itself may read.
func (r *run) checkReads(ctx context.Context) error {
	user := r.userFor(r.Stored.Namespace())
	if err := r.tools.Access.CheckRead(ctx, user, r.program.Resource, r.Stored.Namespace(), r.Stored.Name()); err != nil {
		return err
	}
	for _, owned := range r.program.Owns {
		if owned.Unserved {
			continue
		}
		namespaces := []string{r.Stored.Namespace()}
		if !r.program.Resource.Namespaced {
			namespaces = r.program.NamespacesOf(owned)
		}
		if err := r.tools.Access.CheckList(ctx, user, owned, namespaces...); err != nil {
			return err
		}
	}
	return nil
}

// Selections returns the watches of the handled kind. Controllers with equal selections share
// a watch.
func (p *Program) Selections() []cache.Selection {
	var all []cache.Selection
	for _, namespace := range p.NamespacesOf(p.Resource) {
		all = append(all, cache.Selection{Resource: p.Resource, Namespace: namespace, Labels: p.serverSelector(), Fields: p.Fields})
	}
	return all
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for
// all.
func (p *Program) NamespacesOf(resource object.Resource) []string {
	if len(p.Namespaces) == 0 || !resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}
