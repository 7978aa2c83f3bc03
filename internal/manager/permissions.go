package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// RequiredPermissions returns the permissions that a Go program needs to run these controllers with these options.
func RequiredPermissions(all []*compile.Compiled, o Options) (rbac.Permissions, error) {
	o = o.withDefaults()
	process := o.process()
	var err error
	if process.CRDs, err = crds.Parse(o.CRDs, o.AllowBreakingCRDs); err != nil {
		return nil, err
	}
	return process.Required(all), nil
}

// RunPermissions returns the permissions that `setpoint run` needs for its own work, whatever its controllers are.
func RunPermissions(o Options) rbac.Permissions {
	o.LeaderElection.Enabled = true
	o = o.withDefaults()
	return o.process().ForRun()
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
