package host

import (
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/reach/token"
)

// ownObjects are what this Host cannot do without. It is asked about none of them: with
// its hook down, a review of Leases would else take it its own, and with it the leader
// that could take back the review.
func (h *Host) ownObjects() admission.Own {
	o := &h.options
	own := admission.Own{Leases: []admission.ObjectName{
		{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.Name},
		{Namespace: o.LeaderElection.Namespace, Name: presenceName(*o)},
	}}
	if secret := o.reviewSecret(); secret != (admission.SecretRef{}) {
		own.Secrets = append(own.Secrets, admission.ObjectName(secret))
	}
	if o.inspectedBySecret() {
		own.Secrets = append(own.Secrets, admission.ObjectName{Namespace: podNamespace(o.Namespace), Name: token.SecretName})
	}
	for _, d := range h.definitions {
		own.Definitions = append(own.Definitions, d.Name())
	}
	return own
}
