package manager

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// RequiredPermissions returns the permissions that a Go program needs to run these controllers
// with these options.
func RequiredPermissions(all []*compile.Compiled, o Options) (rbac.Permissions, error) {
	o = o.withDefaults()
	process := o.process()
	var err error
	if process.CRDs, err = crds.Parse(o.CRDs, o.AllowBreakingCRDs); err != nil {
		return nil, err
	}
	return process.Required(all), nil
}

// process returns what a process with these options needs permissions for.
func (o *Options) process() *rbac.Process {
	reach, inspect := o.reach(), o.inspect()
	return &rbac.Process{
		Namespace: o.Namespace, PodNamespace: reach.PodNamespace(), CertificateSecret: reach.CertificateSecret(),
		ProvidedCertificates: reach.ProvidesCertificates(),
		InspectSecret:        inspect.Secret().Name, LeaderElection: o.LeaderElection,
	}
}

// EmptySecrets returns the Secrets to create before a Manager runs these controllers. It
// fills them: the right to create Secrets could not be limited to their names.
func EmptySecrets(all []*compile.Compiled, o Options) []*corev1.Secret {
	o = o.withDefaults()
	var secrets []*corev1.Secret
	if inspect := o.inspect(); inspect.Secret().Name != "" {
		secrets = append(secrets, token.NewSecret(o.Namespace))
	}
	reviews := slices.ContainsFunc(all, func(c *compile.Compiled) bool { return c.Admission != nil })
	if reach := o.reach(); reviews && reach.CertificateSecret().Name != "" && !reach.ProvidesCertificates() {
		secrets = append(secrets, certs.NewSecret(reach.CertificateSecret()))
	}
	return secrets
}

// stillMissing reports whether everything that a controller waits for is still missing: permissions,
// or namespaces. It asks for these only, since the rest may be many namespaces.
func (cs *controllerSet) stillMissing(ctx context.Context, key queue.Key) bool {
	cs.mu.Lock()
	var state controllerState
	if e := cs.entries[key]; e != nil {
		state = e.controllerState
	}
	cs.mu.Unlock()
	missing, forbidden := errors.AsType[*rbac.MissingError](state.problem())
	if !forbidden && len(state.absent) == 0 || forbidden && !missing.Persists(ctx, cs.manager.client) {
		return false
	}
	return len(rbac.AbsentNamespaces(ctx, cs.manager.client, state.absent)) == len(state.absent)
}

// permissionInterval is the interval of checking permissions that may have been revoked: as long as a
// decision of the API server counts elsewhere.
const permissionInterval = identity.AllowedTTL

// watchPermissions finds running controllers that have lost permissions, and enqueues them: they stop, and
// their condition has the roles to grant.
func (cs *controllerSet) watchPermissions(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for key, s := range cs.states() {
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
func (cs *controllerSet) lacksPermissions(ctx context.Context, key queue.Key, s *controllerState) bool {
	var kind object.Resource
	if s.object != nil {
		kind = cs.kinds[key.Namespace].Resource
	}
	_, refused := errors.AsType[*compile.Refusal](cs.manager.permissions.Check(ctx, kind, s.running.Compiled))
	return refused
}
