package scenario

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

// Goals are where Setpoint means to be through a webhook.
func Goals(o Options) []report.Goal {
	var goals []report.Goal
	for _, size := range o.Sizes {
		of := size.String()
		goals = append(goals, churnGoals(of, 1)...)
		goals = append(goals,
			// Two status writes are allowed beside one write of each child.
			report.Goal{Section: "create-" + of, Key: "requests", What: "create " + of + ", API requests per parent", Unit: report.PerOne,
				Limit: float64(size.Children + 2)},
			report.Goal{Section: "create-" + of, Key: "read", What: "create " + of + ", of them reads", Unit: report.PerOne, Limit: 0},
			report.Goal{Section: "create-" + of, Key: "calls", What: "create " + of + ", hook calls per parent", Unit: report.PerOne,
				Limit: 2})
	}
	goals = append(goals, idleGoals(o)...)
	return append(goals,
		report.Goal{Section: Outage, Key: "time", What: fmt.Sprintf("recovery after %s without hook", o.Outage), Unit: report.Seconds,
			Limit: 5})
}

// InProcessGoals are those of Setpoint without a webhook, which saves the calls
// and the other process.
func InProcessGoals(o Options) []report.Goal {
	var goals []report.Goal
	for _, size := range o.Sizes {
		of := size.String()
		goals = append(goals, churnGoals(of, 0.7)...)
		for _, section := range []string{"create", "update"} {
			goals = append(goals,
				report.Goal{Section: section + "-" + of, Key: "beside", What: section + " " + of + ", writes beside the children's",
					Unit: report.PerOne, Limit: 1},
				report.Goal{Section: section + "-" + of, Key: "read", What: section + " " + of + ", reads", Unit: report.PerOne, Limit: 0})
		}
	}
	return append(goals, idleGoals(o)...)
}

// InlineGoals are those of inline hooks against the same controller with a webhook in Go.
func InlineGoals(o Options) []report.Goal {
	var goals []report.Goal
	for _, size := range o.Sizes {
		for _, step := range []string{"create-", "update-"} {
			section := step + size.String()
			goals = append(goals, report.Goal{Section: section, Key: "bothcpu", What: section + ", CPU with hook", Unit: report.Millis,
				Limit: 1, Ratio: true})
		}
	}
	return append(goals, report.Goal{Section: Latency, Key: "done50", What: "change to status when idle, p50", Unit: report.Millis,
		Limit: 1, Ratio: true})
}

// churnGoals are those of time and processor time against the hand-written
// controller, which every size has.
func churnGoals(size string, cpu float64) []report.Goal {
	return []report.Goal{
		{Section: "create-" + size, Key: "time", What: "create " + size + ", time", Unit: report.Seconds, Limit: 1, Ratio: true},
		{Section: "update-" + size, Key: "time", What: "update " + size + ", time", Unit: report.Seconds, Limit: 1, Ratio: true},
		{Section: "create-" + size, Key: "cpu", What: "create " + size + ", CPU", Unit: report.Millis, Limit: cpu, Ratio: true},
		{Section: "update-" + size, Key: "cpu", What: "update " + size + ", CPU", Unit: report.Millis, Limit: cpu, Ratio: true},
	}
}

// idleGoals are those of the scenarios in which nothing is to be done for most.
func idleGoals(o Options) []report.Goal {
	return []report.Goal{
		{Section: Steady, Key: "requests", What: "API requests in steady state", Unit: report.Count, Limit: 0},
		{Section: "unrelated-create", Key: "time÷", What: fmt.Sprintf("time among %d unrelated ConfigMaps ÷ without", o.Unrelated),
			Unit: report.PerOne, Limit: 1.05},
		{Section: "unrelated-create", Key: "cpu÷", What: "CPU among them ÷ without", Unit: report.PerOne, Limit: 1.05},
		{Section: "unrelated-create", Key: "peak÷", What: "memory among them ÷ without", Unit: report.PerOne, Limit: 1.05},
		{Section: Related, Key: "÷bare", What: fmt.Sprintf("a related object read by %d parents ÷ as many bare calls", o.Sizes[0].Parents),
			Unit: report.PerOne, Limit: 1.2},
		{Section: Tenants, Key: "done", What: fmt.Sprintf("a quiet tenant beside %d changing parents, p99 ÷ alone", o.Busy),
			Unit: report.PerOne, Limit: 3},
		{Section: Memory, Key: "per10k", What: "memory per 10,000 cached ConfigMaps", Unit: report.MiB, Limit: 25},
		{Section: Latency, Key: "event99", What: "event to hook when idle, p99", Unit: report.Millis, Limit: 10},
	}
}
