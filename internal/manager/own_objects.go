package manager

import (
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery/token"
)

// ownObjects are the objects that this Manager depends on. Its webhooks exempt them: with
// its hook down, a review of Leases would end the leadership that could remove the
// webhook.
func (m *Manager) ownObjects() admission.ExemptObjects {
	o := &m.options
	own := admission.ExemptObjects{Leases: []admission.ObjectName{
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.Name},
		{Namespace: o.LeaderElection.Namespace, Name: processLeaseName(*o)},
	}}
	if secret := o.certificateSecret(); secret != (admission.SecretRef{}) {
		own.Secrets = append(own.Secrets, admission.ObjectName(secret))
	}
	if o.usesInspectSecret() {
		own.Secrets = append(own.Secrets, admission.ObjectName{Namespace: podNamespace(o.Namespace), Name: token.SecretName})
	}
	for _, d := range m.crds {
		own.CRDs = append(own.CRDs, d.Name())
	}
	return own
}
