package manager

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery/token"
)

// ownObjects are the objects that this Manager depends on. Its webhooks exempt them: with
// its hook down, a review of Leases would end the leadership that could remove the
// webhook.
func (m *Manager) ownObjects() register.ExemptObjects {
	o := &m.options
	own := register.ExemptObjects{Leases: []types.NamespacedName{
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.Name},
		{Namespace: o.LeaderElection.Namespace, Name: processLeaseName(*o)},
	}}
	if secret := o.certificateSecret(); secret != (types.NamespacedName{}) {
		own.Secrets = append(own.Secrets, types.NamespacedName(secret))
	}
	if o.usesInspectSecret() {
		own.Secrets = append(own.Secrets, types.NamespacedName{Namespace: podNamespace(o.Namespace), Name: token.SecretName})
	}
	for _, d := range m.crds {
		own.CRDs = append(own.CRDs, d.Name())
	}
	return own
}
