package ui

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// plot is a sparkline with its name and what it comes to.
type plot struct {
	Name, Latest, Label string
	// Class is its colour: "" or that of a tone.
	Class  string
	Values []float64
}

// plotsOf are the plots of a series: runs, errors and how long runs take. None if
// nothing has been noted.
func plotsOf(s inspect.Series) []plot {
	if len(s.Points) < 2 {
		return nil
	}
	var runs, failed, took []float64
	var allRuns, allFailed int
	var latest time.Duration
	for _, p := range s.Points {
		runs, failed = append(runs, float64(p.Runs)), append(failed, float64(p.Failed))
		took = append(took, p.Median.Seconds())
		allRuns, allFailed = allRuns+int(p.Runs), allFailed+int(p.Failed)
		if p.Median > 0 {
			latest = p.Median
		}
	}
	over := span(s.Every * time.Duration(len(s.Points)))
	errors := plot{Name: "Errors", Latest: count(allFailed), Class: "calm", Values: failed, Label: plural(allFailed, "error", "errors") + " in " + over}
	if allFailed > 0 {
		errors.Class = "bad"
	}
	return []plot{
		{Name: "Runs", Latest: count(allRuns), Values: runs, Label: plural(allRuns, "run", "runs") + " in " + over},
		errors,
		{Name: "Latency", Latest: took0(latest), Class: "wait", Values: took, Label: fmt.Sprintf("the median run took %s lately", took0(latest))},
	}
}

// took0 is how long something took, or a dash for what did not happen.
func took0(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return took(d)
}
