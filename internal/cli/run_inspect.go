package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// inspectFlags say what others may read of a process, and how much it keeps for them.
type inspectFlags struct{ address, size string }

func (f *inspectFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.address, "inspect-address", manager.InspectAuto, "`address` of loopback where `setpoint get` and the like read; auto is 127.0.0.1:8082 inside a cluster, else a free port where the kubeconfig is one of `setpoint dev`; empty for nowhere")
	set.StringVar(&f.size, "history-size", "32Mi", "`bytes` that may be kept of what was done lately, and why; 0 keeps nothing")
}

func (f *inspectFlags) check() error {
	if _, err := manager.ParseHistory(f.size); err != nil {
		return fmt.Errorf("--history-size %w", err)
	}
	return nil
}

// history is what check has found to be well.
func (f *inspectFlags) history() manager.History {
	kept, _ := manager.ParseHistory(f.size)
	return kept
}
