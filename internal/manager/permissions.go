package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
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

// RunPermissions returns the permissions that `setpoint run` needs in a cluster for its own work, whatever its controllers
// are, and those to install the CRDs of controllers.
func RunPermissions(o Options) (work, install rbac.Permissions, err error) {
	o.LeaderElection.Enabled = true
	o = o.withDefaults()
	kinds := lists.Map(compile.Kinds(), func(k compile.Kind) object.Resource { return k.Resource })
	work = o.process().ForRun(kinds)
	if o.CRDs, err = crd.All(); err == nil {
		install, err = RequiredPermissions(nil, Options{CRDs: o.CRDs})
	}
	return work, install, err
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
