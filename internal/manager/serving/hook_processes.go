package serving

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/call/child"
)

// HookProcesses collects the figures of the processes of inline and exec hooks by controller, at each scrape.
type HookProcesses func() map[string]child.Figures

// hookProcessSeries are the metrics of these processes.
var hookProcessSeries = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(f child.Figures) float64
}{
	{
		newDesc("setpoint_hook_processes", "Processes of inline and exec hooks.", "controller"),
		prometheus.GaugeValue, func(f child.Figures) float64 { return float64(f.Processes) },
	},
	{
		newDesc("setpoint_hook_process_starts_total", "Starts of processes of inline and exec hooks. One ends when it was idle for 30 "+
			"s, exceeded a limit, or makes room for those of other controllers.", "controller"),
		prometheus.CounterValue, func(f child.Figures) float64 { return float64(f.Starts) },
	},
	{
		newDesc("setpoint_hook_process_memory_bytes",
			"Memory of the processes of inline and exec hooks that they do not share. Known on Linux.", "controller"),
		prometheus.GaugeValue, func(f child.Figures) float64 { return float64(f.MemoryBytes) },
	},
	{
		newDesc("setpoint_hook_process_cpu_seconds_total",
			"CPU time of the processes of inline and exec hooks. That of running ones is known on Linux.", "controller"),
		prometheus.CounterValue, func(f child.Figures) float64 { return f.CPU.Seconds() },
	},
}

// Describe describes nothing: the series depend on the controllers.
func (HookProcesses) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (h HookProcesses) Collect(to chan<- prometheus.Metric) {
	for controller, figures := range h() {
		for _, each := range hookProcessSeries {
			to <- prometheus.MustNewConstMetric(each.desc, each.kind, each.value(figures), controller)
		}
	}
}
