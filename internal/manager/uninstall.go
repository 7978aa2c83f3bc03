package manager

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/manager/uninstall"
)

// Uninstall removes what a Manager with these options has left in the cluster. No such Manager may run any more.
func Uninstall(ctx context.Context, o Options, u uninstall.Options) error {
	m, err := New(o)
	if err != nil {
		return err
	}
	return newRemover(m, u).Run(ctx)
}

// ReleaseDevRun removes the webhook configurations of a stopped Manager with Options.DevRun, and its finalizers
// from all objects that its controllers have handled and from the controller objects. The objects stay.
func ReleaseDevRun(ctx context.Context, o Options, report func(line string)) error {
	m, err := New(o)
	if err != nil {
		return err
	}
	defer m.Close()
	return newRemover(m, uninstall.Options{Report: report}).Release(ctx)
}

func newRemover(m *Manager, u uninstall.Options) *uninstall.Remover {
	o := &m.options
	return &uninstall.Remover{
		Options: u, Dependencies: &m.dependencies, Config: o.config(), Writer: apply.New(m.Client, apply.Options{}),
		Program: o.Name != "", DevRun: o.DevRun, Namespaces: o.Namespaces, Reach: o.reach(), LeaderElection: o.LeaderElection,
	}
}
