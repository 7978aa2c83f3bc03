package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// prepareTarget checks that the session may run in the cluster, and opens the inventory. It writes nothing
// before all checks have passed.
func (s *session) prepareTarget(ctx context.Context) error {
	t := s.Target
	if t == nil {
		return nil
	}
	s.Reporter.Line("context %s: %s as %s, in the namespaces %s", t.Context, t.Server, manager.User(ctx, s.config),
		strings.Join(t.Namespaces, ", "))
	found, err := inventory.Find(ctx, s.config, t.Run.Name, t.InventoryNamespaces)
	if err != nil && !errors.Is(err, inventory.ErrNone) {
		return err
	}
	if found != nil {
		if err := found.CheckOwner(t.Run); err != nil {
			return fmt.Errorf("%w; use other --namespaces, or remove what it created: %s", err, t.CleanupCommand)
		}
		// A process of the same run that was killed, or one that runs, may still hold the Lease.
		err := leader.CheckStopped(ctx, s.config, found.Lease(), func(holder, lease string, most time.Duration) {
			s.Reporter.Still("waiting up to %s to see whether %s still runs (Lease %s)", most, holder, lease)
		})
		if err != nil {
			return err
		}
	}
	shared, err := manifest.NewShared(s.config, found, t.Namespaces)
	if err != nil {
		return err
	}
	shared.Reviews = t.Admission.URL != ""
	documents, err := s.checkManifests(ctx, shared)
	if err != nil {
		return err
	}
	return s.openInventory(ctx, shared, documents)
}

// checkManifests returns all manifests, or why they must not be applied.
func (s *session) checkManifests(ctx context.Context, shared *manifest.Shared) ([]manifest.Document, error) {
	var documents []manifest.Document
	var problems []error
	for _, w := range s.projects {
		some, err := shared.Check(ctx, s.config, w.Apply, s.Target.rights(shared.Inventory))
		documents, problems = append(documents, some...), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("nothing was applied: %w", err)
	}
	all, err := manifest.Objects(documents)
	if err != nil {
		return nil, err
	}
	options := s.managerOptions(nil)
	if shared.Inventory != nil {
		options.DevRun = shared.Inventory.ID()
	}
	m, err := s.NewManager(options)
	if err != nil {
		return nil, err
	}
	checks, able := m.(interface {
		Preflight(ctx context.Context, objects []*object.Object) error
		Close()
	})
	if able { // It runs controllers, maybe beside those of the cluster.
		defer checks.Close()
		if err := checks.Preflight(ctx, all); err != nil {
			return nil, fmt.Errorf("nothing was applied: %w", err)
		}
	}
	return documents, nil
}

// rights are those for the inventory and the Lease.
func (t *Target) rights(i *inventory.Inventory) rbac.Permissions {
	namespace := t.InventoryNamespaces[0]
	if i != nil {
		namespace = i.Lease().Namespace
	}
	return slices.Concat(
		rbac.On(object.ConfigMaps, "", namespace, "get", "create", "update", "delete"),
		rbac.On(object.Leases, "", namespace, "get", "list", "create", "update", "delete"))
}

// openInventory stores the inventory, installs the CRDs of controllers that the cluster lacks, and prepares
// the manifests.
func (s *session) openInventory(ctx context.Context, shared *manifest.Shared, documents []manifest.Document) (err error) {
	t := s.Target
	if shared.Inventory == nil {
		shared.Inventory, err = inventory.Create(ctx, s.config, t.Run, t.InventoryNamespaces)
	}
	if err == nil {
		err = shared.Inventory.Limit(ctx, t.Namespaces)
	}
	if err != nil {
		return err
	}
	s.shared = shared
	if err := shared.InstallKinds(ctx, documents); err != nil {
		return err
	}
	for _, w := range s.projects {
		w.manifests = manifest.NewSharedSet(shared, w.Name(), w.Apply)
	}
	return nil
}

// leaveTarget prints what stays in the cluster. If there is nothing, the inventory goes.
func (s *session) leaveTarget() {
	if s.shared == nil {
		return
	}
	i := s.shared.Inventory
	if len(i.Entries) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		_ = discard(ctx, s.config, i) // The next session, or --cleanup, does it.
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nThese objects stay in the cluster, listed in %s:\n", i)
	for _, e := range i.Entries {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	fmt.Fprintf(&b, "To remove them: %s\n", s.Target.CleanupCommand)
	s.Reporter.Line("%s", b.String())
}
