package controlplane

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/controlplane/internal/kubeconfig"
)

// defaultNodes is enough to see pods spread, few enough to keep a listing short.
const defaultNodes = 3

// Options for a cluster. The zero value is a throw-away one.
type Options struct {
	// DataDir keeps the cluster between runs: certificates, ports, objects. If
	// empty, it lives in a temporary directory that Stop removes.
	DataDir string

	// Kubeconfig is where the administrator's kubeconfig goes, with mode 0600.
	// If empty, it is in the data directory. A file there that we did not write
	// is not replaced.
	Kubeconfig string

	// Nodes is the number of fake nodes: 3 if zero, none if negative.
	Nodes int

	// Executable is the binary to start as the components; it must call
	// components.Main first. If empty, it is the running one.
	Executable string

	// KubernetesBinaries is a folder with kube-apiserver, kube-controller-manager and
	// kube-scheduler of another version, to run instead of those in Executable. If empty,
	// $SETPOINT_KUBERNETES_BINARIES names it.
	KubernetesBinaries string

	// Args are extra arguments by component name, which win over ours.
	Args map[string][]string

	// Progress is called when a phase begins, and what it returns, when that
	// phase ends. Phases overlap; calls do not.
	Progress func(phase string) (done func(error))

	// Log receives restarts and the like; nothing is logged if it is nil. The
	// components' own logs go to files in the data directory.
	Log *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Nodes == 0 {
		o.Nodes = defaultNodes
	}
	if o.Progress == nil {
		o.Progress = func(string) func(error) { return func(error) {} }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.KubernetesBinaries = cmp.Or(o.KubernetesBinaries, os.Getenv("SETPOINT_KUBERNETES_BINARIES"))
	if o.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find the running binary: %w", err)
		}
		o.Executable = self
	}
	if o.Kubeconfig == "" {
		return o, nil
	}
	absolute, err := filepath.Abs(o.Kubeconfig)
	if err != nil {
		return o, fmt.Errorf("find kubeconfig: %w", err)
	}
	o.Kubeconfig = absolute
	return o, kubeconfig.CheckReplaceable(absolute)
}
