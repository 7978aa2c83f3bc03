package scenario

import (
	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

func timeColumns() []report.Column {
	return []report.Column{
		{Key: "time", Title: "converged", Unit: report.Seconds, Ratio: true},
		{Key: "loaded", Title: "load done", Unit: report.Seconds},
	}
}

func requestColumns(unit report.Unit) []report.Column {
	columns := []report.Column{{Key: "requests", Title: "requests", Unit: unit}}
	for _, kind := range cluster.Kinds() {
		columns = append(columns, report.Column{Key: kind, Title: kind, Unit: unit, Sparse: true})
	}
	return columns
}

func perParentColumns() []report.Column {
	return append(requestColumns(report.PerOne),
		report.Column{Key: "calls", Title: "calls", Unit: report.PerOne},
		report.Column{Key: "cpu", Title: "CPU", Unit: report.Millis, Ratio: true},
		report.Column{Key: "hookcpu", Title: "hook CPU", Unit: report.Millis},
		report.Column{Key: "bothcpu", Title: "CPU with hook", Unit: report.Millis, Ratio: true})
}

func memoryColumns() []report.Column {
	return []report.Column{
		{Key: "idle", Title: "RSS idle", Unit: report.MiB},
		{Key: "rss", Title: "RSS after", Unit: report.MiB},
		{Key: "peak", Title: "RSS peak", Unit: report.MiB, Ratio: true},
		{Key: "bytes", Title: "per object", Unit: report.Bytes},
	}
}

// addRequests enters requests, each divided by a number: beside are those that
// write the parent, beside its children.
func addRequests(values map[string]float64, requests cluster.Requests, by float64) {
	values["requests"] = requests.Total() / by
	values["beside"] = (requests[cluster.Status] + requests[cluster.Parent]) / by
	for _, kind := range cluster.Kinds() {
		values[kind] = requests[kind] / by
	}
}

// addUse enters what was used from before to after, each divided by a number.
func addUse(values map[string]float64, out *outcome, by float64) {
	values["calls"] = float64(out.after.Calls-out.before.Calls) / by
	own, hook := out.after.CPU-out.before.CPU, out.after.HookCPU-out.before.HookCPU
	values["cpu"] = stats.Millis(own) / by
	values["bothcpu"] = stats.Millis(own+hook) / by
	if hook > 0 {
		values["hookcpu"] = stats.Millis(hook) / by
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
