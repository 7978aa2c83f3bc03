package processes

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Plots show a rate per minute, also for a shorter time.
func TestRates(t *testing.T) {
	points := func(runs ...uint32) inspect.Series {
		s := inspect.Series{Every: 30 * time.Second, Points: make([]inspect.Point, 20)}
		for i, n := range runs {
			s.Points[20-len(runs)+i].Runs = n
		}
		return s
	}
	every := make([]uint32, 20)
	every[0], every[19] = 13, 13
	for _, c := range []struct {
		s                   inspect.Series
		latest, rate, label string
	}{
		{points(), "0", "no runs in 10m", "0 runs in 10m"},
		{points(every...), "2.6/min", "2.6 runs a minute", "26 runs in 10m, 2.6 a minute"},
		{points(3), "3/min", "3 runs a minute", "3 runs in 10m, 3 a minute"},
		{points(1), "1/min", "1 run a minute", "1 run in 10m, 1 a minute"},
		{points(3, 0, 0, 0), "1.5/min", "1.5 runs a minute", "3 runs in 10m, 1.5 a minute"},
		{points(2400), "2,400/min", "2,400 runs a minute", "2,400 runs in 10m, 2,400 a minute"},
	} {
		ran := Plots(c.s)[0]
		if ran.Name != "Runs" || ran.Latest != c.latest || ran.Rate != c.rate || ran.Label != c.label {
			t.Errorf("got %+v", ran)
		}
	}
	if got := perMinute(1, time.Hour); got != "under 0.1" {
		t.Errorf("got %q", got)
	}
	if Plots(inspect.Series{}) != nil {
		t.Error("a plot of nothing")
	}
}
