package scenario

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

// Goals are where Setpoint means to be.
func Goals(o Options) []report.Goal {
	var goals []report.Goal
	for _, size := range o.Sizes {
		goals = append(goals, sizeGoals(size)...)
	}
	first := o.Sizes[0]
	return append(goals,
		report.Goal{Section: Steady, Key: "requests", What: "API requests in steady state", Unit: report.Count, Limit: 0},
		report.Goal{Section: "unrelated-create", Key: "time÷", What: fmt.Sprintf("time among %d unrelated ConfigMaps ÷ without", o.Unrelated), Unit: report.PerOne, Limit: 1.05},
		report.Goal{Section: "unrelated-create", Key: "cpu÷", What: "CPU among them ÷ without", Unit: report.PerOne, Limit: 1.05},
		report.Goal{Section: "unrelated-create", Key: "peak÷", What: "memory among them ÷ without", Unit: report.PerOne, Limit: 1.05},
		report.Goal{Section: Related, Key: "÷bare", What: fmt.Sprintf("a related object read by %d parents ÷ as many bare calls", first.Parents), Unit: report.PerOne, Limit: 1.2},
		report.Goal{Section: Memory, Key: "per10k", What: "memory per 10,000 cached ConfigMaps", Unit: report.MiB, Limit: 25},
		report.Goal{Section: Latency, Key: "event99", What: "event to hook when idle, p99", Unit: report.Millis, Limit: 10},
		report.Goal{Section: Outage, Key: "time", What: fmt.Sprintf("recovery after %s without hook", o.Outage), Unit: report.Seconds, Limit: 5},
	)
}

// sizeGoals are those of churn, which every size has.
func sizeGoals(size Size) []report.Goal {
	of := size.String()
	// Two status writes are allowed beside one write of each child.
	writes := float64(size.Children + 2)
	return []report.Goal{
		{Section: "create-" + of, Key: "time", What: "create " + of + ", time", Unit: report.Seconds, Limit: 1, Ratio: true},
		{Section: "update-" + of, Key: "time", What: "update " + of + ", time", Unit: report.Seconds, Limit: 1, Ratio: true},
		{Section: "create-" + of, Key: "cpu", What: "create " + of + ", CPU", Unit: report.Millis, Limit: 1, Ratio: true},
		{Section: "update-" + of, Key: "cpu", What: "update " + of + ", CPU", Unit: report.Millis, Limit: 1, Ratio: true},
		{Section: "create-" + of, Key: "requests", What: "create " + of + ", API requests per parent", Unit: report.PerOne, Limit: writes},
		{Section: "create-" + of, Key: "read", What: "create " + of + ", of them reads", Unit: report.PerOne, Limit: 0},
		{Section: "create-" + of, Key: "calls", What: "create " + of + ", hook calls per parent", Unit: report.PerOne, Limit: 2},
	}
}
