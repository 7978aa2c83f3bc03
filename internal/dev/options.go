package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Options configure a session. Boot or Target, Reporter and Log are required.
type Options struct {
	// Paths are folders with a setpoint.yaml, manifest files to apply, and the Python files of an operator to run, for
	// which Interpreter is the path of Python; "" for the default.
	Paths       []string
	Interpreter string
	// Target is the cluster, if it is not one that Boot boots.
	Target *Target
	// Command runs once everything is ready; the session ends with it.
	Command []string
	// ProcessLogs is the folder for the output of processes, one NAME.log each; "" for the
	// terminal.
	ProcessLogs string
	// ReadyTimeout is how long the command waits for compiled processes; 0 for no timeout.
	ReadyTimeout time.Duration
	// Interactive reports that the command reads from a terminal.
	Interactive    bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is the one whose keys are read, such as q to quit; nil for none. The key for it calls Reconcile, which requests
	// a reconcile of all objects of a kubeconfig's controllers.
	Terminal  *os.File
	Reconcile func(ctx context.Context, kubeconfig string, out io.Writer) error

	// DashboardAddress is the loopback address of the dashboard; AnyDashboardAddress for
	// the default port or a free one, "" for no dashboard.
	DashboardAddress string
	// DataDir, Kubeconfig and KubernetesBinaries are passed to Boot.
	DataDir, Kubeconfig, KubernetesBinaries string
	Boot                                    Boot
	// NewManager creates the manager; nil for a cluster whose controllers run elsewhere.
	NewManager func(manager.Options) (Manager, error)

	// Programs are those of exec hooks; nil for none.
	Programs Programs

	// Recording writes all hook calls to a file.
	Recording manager.Recording
	// Traces says where spans go; nil for none.
	Traces *trace.Config

	// FreePort finds a port for a process; one of process.FreePorts if nil.
	FreePort func() (int, error)

	// Program is the name this program was called by, Executable its path.
	Program, Executable string
	Version             string

	Reporter *progress.Reporter
	Log      *slog.Logger
	// Signals end the session. The second one calls Abort, which must not return.
	Signals <-chan os.Signal
	Abort   func()
}

// AnyDashboardAddress is any free loopback port.
const AnyDashboardAddress = "127.0.0.1:0"

// DefaultDashboardAddress is tried first, so that open pages keep working in the next
// session.
const DefaultDashboardAddress = "127.0.0.1:7400"

// Manager runs the controllers. manager.Manager implements it.
type Manager interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// HookRestarted reports that a process responds at an address again; HookDown that none
	// does, and why.
	HookRestarted(addr string)
	HookDown(addr string, err error)
}

// Programs opens the programs of exec hooks. *program.Opener implements it.
type Programs interface {
	// Limit has a program refused if check returns an error.
	Limit(check func(call.Command) error)
	// Using returns the programs that a change of a file restarts.
	Using(file string) []string
}

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
