package dev

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
)

func (s *session) boot(ctx context.Context) error {
	cluster, err := s.Boot(ctx, BootOptions{
		DataDir: s.DataDir, Kubeconfig: s.Kubeconfig, KubernetesBinaries: s.KubernetesBinaries, Log: s.Log,
		Progress: func(name string) func(error) {
			phase := s.Reporter.Phase(name)
			return func(err error) { phase.End(err, "") }
		},
	})
	if err != nil && s.Target != nil {
		return err // Nothing was to be booted.
	}
	if err != nil {
		return fmt.Errorf("boot the control plane: %w", err)
	}
	s.cluster = cluster
	return s.connect()
}

func (s *session) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // The API server limits requests itself.
	config.UserAgent = "setpoint/" + s.Version
	s.config = config
	if s.Target != nil {
		return nil // prepareTarget does it.
	}
	for _, w := range s.projects {
		if w.manifests, err = manifest.NewSet(config, w.Apply); err != nil {
			return err
		}
	}
	return nil
}

// awaitCluster waits for the rest of the cluster. It follows startManager, which installs CRDs
// meanwhile.
func (s *session) awaitCluster(ctx context.Context) error {
	if err := s.cluster.AwaitReady(ctx); err != nil {
		return fmt.Errorf("boot the control plane: %w", err)
	}
	s.background.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.cluster.Done():
			s.cancel(fmt.Errorf("the control plane stopped: %w", s.cluster.Err()))
		}
	})
	return nil
}

func (s *session) startManager(ctx context.Context) error {
	var dashboard manager.Dashboard
	if s.DashboardAddress != "" {
		d, err := listenForDashboard(ctx, s.DashboardAddress)
		if err != nil {
			return err
		}
		d.folder, d.exits = s.inspectDir, s.locals.exits
		s.dashboardURL, dashboard = d.url(), d
	}
	// For `setpoint plan`, which finds the routes by the kubeconfig.
	err := s.published.keep(locate.PublishHooks(s.inspectDir, s.locals.routes()))
	if err != nil || s.NewManager == nil {
		return err
	}
	manager, err := s.NewManager(s.managerOptions(dashboard))
	if err != nil {
		return fmt.Errorf("start the controller manager: %w", err)
	}
	s.manager = manager
	s.background.Go(func() {
		if err := manager.Run(ctx); err != nil && ctx.Err() == nil {
			s.cancel(fmt.Errorf("the controller manager stopped: %w", err))
		}
	})
	return nil
}

// managerOptions returns the options of the manager.
func (s *session) managerOptions(dashboard manager.Dashboard) manager.Options {
	o := manager.Options{
		Settings: compile.Settings{
			Dial: s.locals.dial, Routed: func(address string) bool { return s.locals.at(address) != nil },
			Expressions: expression.Compile,
		},
		Config: s.config, Version: s.Version, Log: s.Log, Dashboard: dashboard,
		InspectAddress: "127.0.0.1:0", InspectDir: s.inspectDir, Recording: s.Recording, Traces: s.Traces,
		Plan: dryrun.ForObject,
	}
	if t := s.Target; t != nil {
		o.NoCodeReviews = true // Controllers of others may be in the cluster.
		o.Namespaces, o.SkipCRDs, o.Admission = t.Namespaces, true, t.Admission
		o.Namespace = t.InventoryNamespaces[0]
	}
	if s.shared != nil {
		lease := s.shared.Inventory.Lease()
		o.Namespace, o.DevRun = lease.Namespace, s.shared.Inventory.ID()
		o.LeaderElection = leader.Election{Enabled: true, Name: lease.Name, Namespace: lease.Namespace}
	}
	return o
}

func (s *session) awaitManager(ctx context.Context) error {
	if s.manager == nil {
		return nil
	}
	phase := s.Reporter.Phase("controllers")
	select {
	case <-s.manager.Ready():
		err := s.checkLeads()
		phase.End(err, "")
		return err
	case <-ctx.Done():
		phase.End(ctx.Err(), "")
		return context.Cause(ctx)
	}
}

// checkLeads returns an error if another session of the run has started at the same time, and has the Lease.
func (s *session) checkLeads() error {
	m, elects := s.manager.(interface{ Leads() bool })
	if s.shared == nil || !elects || m.Leads() {
		return nil
	}
	return fmt.Errorf("another session of this run has started at the same time, and holds the Lease %s; stop it first",
		s.shared.Inventory.Lease())
}
