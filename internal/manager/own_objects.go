package manager

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
)

// ownObjects are the objects that this Manager depends on. Its webhooks exempt them: with
// its hook down, a review of Leases would end the leadership that could remove the
// webhook.
func (m *Manager) ownObjects() register.ExemptObjects {
	o := &m.options
	own := register.ExemptObjects{Leases: []types.NamespacedName{
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.Name},
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.ProcessLeaseName(o.Namespaces)},
	}}
	reach, inspect := o.reach(), o.inspect()
	for _, secret := range []types.NamespacedName{reach.CertificateSecret(), inspect.Secret()} {
		if secret != (types.NamespacedName{}) {
			own.Secrets = append(own.Secrets, secret)
		}
	}
	own.CRDs = m.crds.Names()
	return own
}
