package dev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// Cluster is a running control plane.
type Cluster interface {
	// Kubeconfig returns the path of the admin kubeconfig.
	Kubeconfig() string
	// Address returns the URL of the API server.
	Address() string
	Components() []Component
	// AwaitReady returns once the controllers of Kubernetes run and pods can be scheduled.
	AwaitReady(ctx context.Context) error
	// Done is closed when the cluster stops. Err returns why; nil after Stop.
	Done() <-chan struct{}
	Err() error
	Stop(ctx context.Context) error
}

// Component is one program of the control plane and its log file.
type Component struct{ Name, Log string }

// BootOptions configure the cluster.
type BootOptions struct {
	// DataDir keeps the cluster between runs; "" for a temporary one.
	DataDir string
	// Kubeconfig is the file to write; "" for one in the data directory.
	Kubeconfig string
	// KubernetesBinaries is the folder of other programs of Kubernetes; "" for the default of
	// Boot.
	KubernetesBinaries string
	// Progress is called at the start of a phase and returns the function for its end.
	Progress func(phase string) (done func(error))
	Log      *slog.Logger
}

// Boot starts a cluster and returns once its API server is ready.
type Boot func(ctx context.Context, o BootOptions) (Cluster, error)

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

// environment limits operators to the namespaces.
func (t *Target) environment() []string {
	if t == nil {
		return nil
	}
	return []string{"SETPOINT_NAMESPACES=" + strings.Join(t.Namespaces, ","), "POD_NAMESPACE=" + t.Namespaces[0]}
}

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

// connectedCluster implements Cluster for a Target. It starts and stops nothing.
type connectedCluster struct {
	// kubeconfig is locked until the session ends.
	kubeconfig *os.File
	address    string
}

func (c connectedCluster) Kubeconfig() string { return c.kubeconfig.Name() }

func (c connectedCluster) Address() string { return c.address }

func (c connectedCluster) Components() []Component { return nil }

func (c connectedCluster) Done() <-chan struct{} { return nil }

func (c connectedCluster) Err() error { return nil }

// AwaitReady waits for nothing: the cluster is in use.
func (c connectedCluster) AwaitReady(context.Context) error { return nil }

// Stop implements Cluster.
func (c connectedCluster) Stop(context.Context) error { return removeLocked(c.kubeconfig) }
