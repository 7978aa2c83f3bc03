package processes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Plot is a sparkline with its labels.
type Plot struct {
	Name, Latest, Label string
	// Rate is the rate per minute, in words.
	Rate string
	// Class is the CSS class of its color.
	Class  string
	Values []float64
}

// Plots returns the plots of a series: runs, errors and latency. It returns nil if there is no data.
func Plots(s inspect.Series) []Plot {
	if len(s.Points) < 2 {
		return nil
	}
	var runs, failed, took []float64
	var allRuns, allFailed int
	var latest, since time.Duration
	for i, p := range s.Points {
		runs, failed = append(runs, float64(p.Runs)), append(failed, float64(p.Failed))
		took = append(took, p.Median.Seconds())
		allRuns, allFailed = allRuns+int(p.Runs), allFailed+int(p.Failed)
		if p.Median > 0 {
			latest = p.Median
		}
		if since == 0 && p.Runs > 0 {
			since = s.Every * time.Duration(len(s.Points)-i)
		}
	}
	over := format.Age(s.Every * time.Duration(len(s.Points)))
	errors := ratePlot("error", allFailed, since, over)
	errors.Class, errors.Values = "neutral", failed
	if allFailed > 0 {
		errors.Class = "bad"
	}
	ran := ratePlot("run", allRuns, since, over)
	ran.Values = runs
	median := "–"
	if latest > 0 {
		median = format.Duration(latest)
	}
	return []Plot{
		ran, errors,
		{Name: "Latency", Latest: median, Class: "wait", Values: took, Label: "latest median run time: " + median},
	}
}

// ratePlot returns a plot of events since the first of them.
func ratePlot(one string, n int, since time.Duration, over string) Plot {
	p := Plot{
		Name: format.Capitalize(one) + "s", Label: format.Plural(n, one, one+"s") + " in " + over,
		Latest: "0", Rate: "no " + one + "s in " + over,
	}
	if n > 0 {
		rate, what := perMinute(n, since), one+"s"
		if rate == "1" {
			what = one
		}
		p.Latest, p.Rate = rate+"/min", rate+" "+what+" a minute"
		p.Label += ", " + rate + " a minute"
	}
	return p
}

// perMinute returns a rate. A shorter period counts as a minute.
func perMinute(n int, over time.Duration) string {
	rate := float64(n) / max(over, time.Minute).Minutes()
	switch {
	case rate >= 10:
		return format.Count(int(rate + 0.5))
	case rate < 0.1:
		return "under 0.1"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", rate), ".0")
}

// plotWidth and plotHeight are the viewBox of a plot.
const (
	plotWidth  = 120
	plotHeight = 28
)

// Points returns the points of a line through the values; "" if there are too few.
func (p Plot) Points() string {
	if len(p.Values) < 2 {
		return ""
	}
	var b strings.Builder
	most := slices.Max(p.Values)
	step := float64(plotWidth) / float64(len(p.Values)-1)
	for i, value := range p.Values {
		height := 0.0
		if most > 0 {
			height = value / most
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", float64(i)*step, float64(plotHeight-1)-height*float64(plotHeight-3))
	}
	return strings.TrimSpace(b.String())
}
