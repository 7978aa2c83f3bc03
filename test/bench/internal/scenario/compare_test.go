package scenario

import (
	"testing"

	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

func TestCompareUnrelated(t *testing.T) {
	r := &report.Report{}
	r.Add(report.Section{ID: "create"}, report.Row{Contender: "a", Values: map[string]float64{"time": 4}})
	r.Add(report.Section{ID: "unrelated-create"}, report.Row{Contender: "a", Values: map[string]float64{"time": 5, "cpu": 1}})
	r.Add(report.Section{ID: "unrelated-create"}, report.Row{Contender: "b", Values: map[string]float64{"time": 5}})
	CompareUnrelated(r)
	if got, ok := r.Value("unrelated-create", "a", "time÷"); !ok || got != 1.25 {
		t.Errorf("time ÷ without: %v, %v", got, ok)
	}
	for contender, key := range map[string]string{"a": "cpu÷", "b": "time÷"} {
		if got, ok := r.Value("unrelated-create", contender, key); ok {
			t.Errorf("%s of %s compared with nothing: %v", key, contender, got)
		}
	}
}
