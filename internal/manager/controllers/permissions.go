package controllers

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// stillMissing reports whether everything that a controller waits for is still missing: permissions,
// or namespaces. It asks for these only, since the rest may be many namespaces.
func (cs *Set) stillMissing(ctx context.Context, key queue.Key) bool {
	state := cs.registry.state(key)
	missing, forbidden := errors.AsType[*rbac.MissingError](state.problem())
	if !forbidden && len(state.absent) == 0 || forbidden && !missing.Persists(ctx, cs.Client) {
		return false
	}
	return len(rbac.AbsentNamespaces(ctx, cs.Client, state.absent)) == len(state.absent)
}

// permissionInterval is the interval of checking permissions that may have been revoked: as long as a
// decision of the API server counts elsewhere.
const permissionInterval = identity.AllowedTTL

// watchPermissions finds running controllers that have lost permissions, and enqueues them: they stop, and
// their condition has the roles to grant.
func (cs *Set) watchPermissions(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for key, s := range cs.registry.states() {
			if s.mayLackPermissions() && cs.lacksPermissions(ctx, key, &s) {
				cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: "permissions"})
			}
		}
	}, permissionInterval)
}

// mayLackPermissions reports whether to check the permissions of a running controller: after a Forbidden, and
// always those of a ServiceAccount for webhooks, which Setpoint registers with its own.
func (s *controllerState) mayLackPermissions() bool {
	health, runs := s.health()
	return runs && (health.Forbidden > 0 || s.running.Admission != nil && !s.running.Account.IsZero())
}

// lacksPermissions reports whether a controller would be refused for missing permissions now.
func (cs *Set) lacksPermissions(ctx context.Context, key queue.Key, s *controllerState) bool {
	var kind object.Resource
	if s.object != nil {
		kind = cs.declared.kinds[key.Namespace].Resource
	}
	_, refused := errors.AsType[*compile.Refusal](cs.Permissions.Check(ctx, kind, s.running.Compiled))
	return refused
}
