package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
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

// checkNamespaces is checkAccess for a controller object. Where the controller is limited to
// namespaces, it excludes those that do not exist or in which permissions are missing, and goes on
// in the others.
func (m *Manager) checkNamespaces(ctx context.Context, kind object.Resource, compiled *compile.Compiled) error {
	err := m.checkAccess(ctx, kind, compiled)
	if compiled.Absent = m.absentNamespaces(ctx, slices.Concat(compiled.Namespaces(), missingIn(err))); len(compiled.Absent) > 0 {
		compiled.Notes = append(compiled.Notes, strings.Join(compiled.Absent, ", ")+
			": no such namespace; the controller starts there when it exists and Setpoint has the permissions")
	}
	gone := slices.DeleteFunc(missingIn(err), func(name string) bool { return !slices.Contains(compiled.Absent, name) })
	switch {
	case len(gone) == 0:
	case compiled.Exclude(gone) == nil:
		// The message has Roles in these namespaces.
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf("%s: no such namespace; create it first; %w",
			strings.Join(gone, ", "), err)}
	default:
		err = m.checkAccess(ctx, kind, compiled)
	}
	forbidden := missingIn(err)
	left := compiled.Exclude(forbidden)
	if len(forbidden) == 0 || left == nil {
		return err
	}
	compiled.Incomplete = &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf(
		"the controller works in %s, but not in %s: %w", strings.Join(left, ", "), strings.Join(forbidden, ", "), err)}
	return nil
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
	return len(cs.manager.absentNamespaces(ctx, state.absent)) == len(state.absent)
}

// missingIn returns the namespaces in which permissions are missing.
func missingIn(err error) []string {
	if missing, is := errors.AsType[*rbac.MissingError](err); is {
		return slices.Clone(missing.Namespaces)
	}
	return nil
}

// absentNamespaces returns those of the namespaces that do not exist, as far as Setpoint may know.
func (m *Manager) absentNamespaces(ctx context.Context, names []string) []string {
	return absentNamespaces(ctx, m.client, names)
}

func absentNamespaces(ctx context.Context, client rest.Interface, names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		err := client.Get().AbsPath(object.Namespaces.Path("", name)).SetHeader("Accept", request.Metadata).Do(ctx).Error()
		return !apierrors.IsNotFound(err)
	})
}

// checkAccess refuses a controller that lacks permissions. Its object is of a kind, if it has
// one.
func (m *Manager) checkAccess(ctx context.Context, kind object.Resource, compiled *compile.Compiled) error {
	if err := m.options.process().Check(ctx, m.client, kind, compiled); err != nil || compiled.Account.PerNamespace() {
		return err
	}
	err := m.access.CheckExists(ctx, compiled.Account.UserFor(""))
	if errors.Is(err, identity.ErrForbidden) {
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: err}
	}
	return err
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
	_, refused := errors.AsType[*compile.Refusal](cs.manager.checkAccess(ctx, kind, s.running.Compiled))
	return refused
}
