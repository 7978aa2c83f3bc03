package scenario

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
)

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
