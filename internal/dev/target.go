package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Target is a cluster that one already has, in place of one to boot.
type Target struct {
	// Kubeconfig has the context and its credentials alone.
	Kubeconfig *clientcmdapi.Config
	Context    string
	Server     string
	// Namespaces are those in which objects are applied and controllers work; the first is the default.
	Namespaces []string
	// InventoryNamespaces are those that may have the inventory, in order of preference.
	InventoryNamespaces []string
	Run                 inventory.Run
	Admission           serving.AdmissionOptions
	// CleanupCommand removes what the run creates.
	CleanupCommand string
}

// connectedCluster implements Cluster for a Target. It starts and stops nothing.
type connectedCluster struct {
	// kubeconfig is locked until the session ends.
	kubeconfig *os.File
	address    string
}

func (c connectedCluster) Kubeconfig() string      { return c.kubeconfig.Name() }
func (c connectedCluster) Address() string         { return c.address }
func (c connectedCluster) Components() []Component { return nil }
func (c connectedCluster) Done() <-chan struct{}   { return nil }
func (c connectedCluster) Err() error              { return nil }

// AwaitReady waits for nothing: the cluster is in use.
func (c connectedCluster) AwaitReady(context.Context) error { return nil }

// Stop implements Cluster.
func (c connectedCluster) Stop(context.Context) error { return removeLocked(c.kubeconfig) }

// connect implements Boot: it writes the kubeconfig of the session.
func (t *Target) connect(context.Context, BootOptions) (Cluster, error) {
	folder, err := locate.CreateClusterFolder(t.Server)
	if err == nil {
		err = locate.SetKubeconfigFolder(t.Kubeconfig, folder)
	}
	if err != nil {
		return nil, err
	}
	t.Kubeconfig.Contexts[t.Context].Namespace = t.Namespaces[0]
	file, err := writeLocked(folder, "dev-"+t.Run.Name, t.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of the session: %w", err)
	}
	return connectedCluster{file, t.Server}, nil
}

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

// checkLeads returns an error if another session of the run has started at the same time, and has the Lease.
func (s *session) checkLeads() error {
	m, elects := s.manager.(interface{ Leads() bool })
	if s.shared == nil || !elects || m.Leads() {
		return nil
	}
	return fmt.Errorf("another session of this run has started at the same time, and holds the Lease %s; stop it first",
		s.shared.Inventory.Lease())
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

// limit adds what limits the manager to this run.
func (t *Target) limit(o *manager.Options, shared *manifest.Shared) {
	o.NoCodeReviews = true // Controllers of others may be in the cluster.
	o.Namespaces, o.SkipCRDs, o.Admission = t.Namespaces, true, t.Admission
	o.Namespace = t.InventoryNamespaces[0]
	if shared != nil {
		lease := shared.Inventory.Lease()
		o.Namespace, o.DevRun = lease.Namespace, shared.Inventory.ID()
		o.LeaderElection = leader.Election{Enabled: true, Name: lease.Name, Namespace: lease.Namespace}
	}
}

// environment limits operators to the namespaces.
func (t *Target) environment() []string {
	if t == nil {
		return nil
	}
	return []string{"SETPOINT_NAMESPACES=" + strings.Join(t.Namespaces, ","), "POD_NAMESPACE=" + t.Namespaces[0]}
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
