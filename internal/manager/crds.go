package manager

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
)

// newInstaller returns the installer of the CRDs of controllers, unless SkipCRDs is set or a Go program declares all
// controllers, and of those of the options. An upgrade of Setpoint's own CRDs is never refused.
func newInstaller(m *Manager) (*crds.Installer, error) {
	o := &m.options
	installer := crds.Options{
		Skip: o.SkipCRDs, Program: m.Process, Client: m.Client, Log: m.Log, Resolve: m.Resolver.Resolve,
		EventAt: m.Events.EventAt,
		Checked: func() { m.controllers.ResetReported() },
	}
	var err error
	if installer.Install, err = crds.Parse(o.CRDs, o.AllowBreakingCRDs); err != nil {
		return nil, fmt.Errorf("read the CRDs of the program: %w", err)
	}
	if len(o.GoControllers) > 0 {
		return crds.NewInstaller(installer), nil
	}
	if installer.Corrected, err = crds.Parse(crd.All(), true); err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	if !o.SkipCRDs {
		installer.Install = slices.Concat(installer.Corrected, installer.Install)
	}
	return crds.NewInstaller(installer), nil
}

// awaitCRDsAsStandby waits until the CRDs are served that the leader installs. A leader of an older release never
// installs them: it stops in a rolling update as soon as this replica is ready.
func (m *Manager) awaitCRDsAsStandby(ctx context.Context) error {
	if m.Leader.Leads() {
		return nil
	}
	m.awaitingCRDs.Store(m.CRDs.Missing(ctx))
	defer m.awaitingCRDs.Store(false)
	return m.CRDs.Await(ctx)
}

// ownObjects are the objects that this Manager depends on. Its webhooks exempt them: with its hook down, a review of
// Leases would end the leadership that could remove the webhook.
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
	own.CRDs = m.CRDs.Names()
	return own
}
