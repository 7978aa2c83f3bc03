package scenario

import (
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

// Who uses the processors beside the components of the control plane.
const (
	contenderProcess = "contender"
	hookProcess      = "hook"
	// LoadProcess is the bench itself, which also does the bare writes.
	LoadProcess = "load"
)

// processorHead is a section on who used the processors in a phase. Its columns
// are the processes that were there.
func processorHead(section, title string) report.Section {
	columns := []report.Column{{Key: "all", Title: "all", Unit: report.Seconds, Ratio: true}}
	for _, name := range []string{contenderProcess, hookProcess, LoadProcess,
		"kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok"} {
		columns = append(columns, report.Column{Key: name, Title: name, Unit: report.Seconds, Sparse: true})
	}
	return report.Section{ID: section + "-processors", Title: title + ": processor time by process", Columns: columns}
}

func (t *trial) processorRow(out *outcome) report.Row {
	used := maps.Clone(out.others)
	used[contenderProcess] = out.after.CPU - out.before.CPU
	used[hookProcess] = out.after.HookCPU - out.before.HookCPU
	values := map[string]float64{"all": sum(slices.Collect(maps.Values(used))).Seconds()}
	for name, time := range used {
		values[name] = time.Seconds()
	}
	return report.Row{Contender: t.contender.Name(), Values: values}
}

func sum(times []time.Duration) (all time.Duration) {
	for _, t := range times {
		all += t
	}
	return all
}
