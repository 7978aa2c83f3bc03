package scenario

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

func TestCompareUnrelated(t *testing.T) {
	r := &report.Report{}
	add := func(section, contender string, values map[string]float64) {
		r.Add(report.Section{ID: section}, report.Row{Contender: contender, Values: values})
	}
	add("create-2x1", "a", map[string]float64{"time": 4})
	add("unrelated-create", "a", map[string]float64{"time": 5, "cpu": 1})
	add("unrelated-create", "b", map[string]float64{"time": 5})
	// The second round is compared with the second.
	add("create-2x1", "a", map[string]float64{"time": 10})
	add("unrelated-create", "a", map[string]float64{"time": 10})
	CompareUnrelated(r, Size{Parents: 2, Children: 1})
	rows := r.Section("unrelated-create").Rows
	for i, want := range []float64{1.25, 0, 1} {
		if got := rows[i].Values["time÷"]; got != want {
			t.Errorf("row %d: time ÷ without is %v, want %v", i, got, want)
		}
	}
	if got, ok := rows[0].Values["cpu÷"]; ok {
		t.Errorf("compared with nothing: %v", got)
	}
}

func TestSizes(t *testing.T) {
	for _, text := range []string{"2000x1", "1x20"} {
		if size, err := ParseSize(text); err != nil || size.String() != text {
			t.Errorf("%s came back as %s, %v", text, size, err)
		}
	}
	for _, text := range []string{"", "5", "x", "0x1", "1x0", "1x2x3"} {
		if size, err := ParseSize(text); err == nil {
			t.Errorf("%q taken for %s", text, size)
		}
	}
}

// A goal about a measure that no section has would never be judged.
func TestGoalsReferToColumns(t *testing.T) {
	b := &Bench{Options: Options{Sizes: []Size{{2, 1}}}}
	turn := &trial{bench: b, work: b.Sizes[0].work()}
	sections := map[string]report.Section{
		Steady:  {Columns: requestColumns(report.Count)},
		Latency: latencyHead(1), Memory: memoryHead(1), Related: turn.relatedHead(), Outage: turn.outageHead(), Tenants: turn.tenantsHead(),
	}
	for _, id := range []string{"create-2x1", "update-2x1", "unrelated-create"} {
		sections[id] = turn.churnHead(id)
	}
	for _, goal := range Goals(b.Options) {
		known := goal.Section == "unrelated-create"
		for _, column := range sections[goal.Section].Columns {
			known = known || column.Key == goal.Key
		}
		if !known {
			t.Errorf("%s: no %s in %s", goal.What, goal.Key, goal.Section)
		}
	}
}

func TestNonChildWrites(t *testing.T) {
	values := map[string]float64{}
	addRequests(values, cluster.Requests{cluster.Create: 20, cluster.Update: 20, cluster.Status: 10, cluster.Parent: 5}, 10)
	if values["beside"] != 1.5 || values["requests"] != 5.5 {
		t.Errorf("got %v", values)
	}
}

func TestArrivals(t *testing.T) {
	var a arrivals
	at := time.Now()
	a.see(load.Observation{Name: "thing-00000", Wanted: "new"}, at) // not awaited
	awaited := a.await("new", 1)
	for _, s := range []load.Observation{
		{Name: "thing-00001", Wanted: "old", Value: "old", Ready: 1},
		{Name: "thing-00000-0", Child: true, Value: "new"},
		{Name: "thing-00000", Wanted: "new", Value: "old", Ready: 1},
		{Name: "thing-00000", Wanted: "new", Value: "new", Ready: 0},
	} {
		at = at.Add(time.Second)
		a.see(s, at)
	}
	select {
	case <-awaited.settled:
		t.Error("settled before the status was right")
	default:
	}
	a.see(load.Observation{Name: "thing-00000", Wanted: "new", Value: "new", Ready: 1}, at.Add(time.Second))
	a.see(load.Observation{Name: "thing-00000", Wanted: "new", Value: "new", Ready: 1}, at.Add(2*time.Second))
	<-awaited.settled
	if want := at.Add(-time.Second); !awaited.at.Equal(want) {
		t.Errorf("first seen at %v, want %v", awaited.at, want)
	}
}

func TestLatencyValues(t *testing.T) {
	samples := []sample{
		{response: 4 * time.Millisecond, event: 4 * time.Millisecond, call: 5 * time.Millisecond},
		{response: 6 * time.Millisecond, event: 8 * time.Millisecond, call: 6 * time.Millisecond},
	}
	got := latencyValues(samples)
	for key, want := range map[string]float64{
		"call50": 5, "call99": 6, "bare50": 4, "bare99": 8, "event50": -2, "event99": 1, "response50": 4,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}
