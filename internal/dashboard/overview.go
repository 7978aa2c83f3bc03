package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// overview is the data of the first page.
type overview struct {
	Processes   []processCard
	Controllers *list[controllerRow]
	// Hidden is the number of controllers that the user may not read.
	Hidden int
	// Sums over all visible controllers.
	Objects, Failing, Suspended, Standby, Lost, Unhealthy int
	MultipleProcesses                                     bool
	// Unreachable reports that the API server does not respond. Selectors limit which
	// controllers processes run. Unsynced are processes whose watches are not synced.
	Unreachable         bool
	Selectors, Unsynced []string
}

// processCard is one process, or why it is unavailable.
type processCard struct {
	processInfo
	Uptime time.Duration
	Cache  cacheStats
	Plots  []plot
}

// cacheStats sums the watches of a process that the user may see. Hidden is the number of other
// watches.
type cacheStats struct {
	Objects, Bytes int
	FailedWatches  []inspect.Watch
	Hidden         int
}

func showOverview(req *request) error {
	o := req.buildOverview()
	// A page that is incomplete because the API server is down returns an error instead.
	o.Unreachable = req.accessErrors.first() == nil && req.probe.isDown(req.context())
	return req.render(page{Name: "overview", Title: "Overview", Section: "overview", Data: o})
}

func (req *request) buildOverview() overview {
	var o overview
	var rows []controllerRow
	processes := req.fetchProcesses()
	for i, t := range req.visibleProcesses(processes) {
		o.Processes = append(o.Processes, req.newProcessCard(t))
		o.noteIncomplete(&t)
		o.Hidden += len(processes[i].Controllers) - len(t.Controllers)
		for k := range t.Controllers {
			rows = append(rows, newControllerRow(&t.Controllers[k], &t))
		}
	}
	o.MultipleProcesses = len(o.Processes) > 1
	req.countUnwatched(rows)
	for i := range rows {
		o.count(&rows[i])
	}
	slices.SortStableFunc(rows, func(a, b controllerRow) int {
		return cmp.Or(cmp.Compare(a.ShortName, b.ShortName), cmp.Compare(a.Name, b.Name))
	})
	o.Controllers = newList(req, rows, controllerSpec())
	return o
}

// controllerSpec is the list of controllers.
func controllerSpec() *listSpec[controllerRow] {
	return &listSpec[controllerRow]{
		Target: "overview", One: "controller", More: "controllers", Label: "States", States: controllerStates(), Default: "state",
		State: func(r *controllerRow) string { return string(r.Health.State) },
		Texts: func(r *controllerRow) []string { return []string{r.Name, r.TypeLabel} },
		Columns: []listColumn[controllerRow]{
			{Name: "Controller", Sort: "name", Compare: compareText(func(r *controllerRow) string { return r.ShortName })},
			{Name: "Health", Sort: "state", Compare: func(a, b *controllerRow) int { return cmp.Compare(a.Health.Rank, b.Health.Rank) }},
			{Name: "Handles"},
			{Name: "Objects", Sort: "objects", Class: "number", Compare: compareMost(func(r *controllerRow) int { return r.Objects })},
			{Name: "Failing", Sort: "failing", Class: "number", Compare: compareMost(func(r *controllerRow) int { return r.Failing })},
			{Name: "Changed", Sort: "changed", Class: "since",
				Compare: compareLatest(func(r *controllerRow) time.Time { return r.Ready().Since })},
			{Name: "Activity (10 min)", Class: "activity"},
		},
	}
}

// countUnwatched counts the objects of suspended controllers and of those whose process has
// ended, which watch none.
func (req *request) countUnwatched(rows []controllerRow) {
	var unwatched []*controllerRow
	for i := range rows {
		if c := &rows[i]; (c.Suspended || c.Lost != nil) && len(c.Kinds) > 0 && len(unwatched) < maxCounted {
			unwatched = append(unwatched, c)
		}
	}
	inParallel(len(unwatched), maxParallelReviews, func(i int) {
		counted := *unwatched[i].Controller
		counted.Objects = 0
		for _, kind := range counted.Kinds {
			if !req.can("list", kind, "", "") {
				continue
			}
			if tally := req.api.Count(req.context(), kind, ""); tally.Err == nil {
				counted.Objects += int(tally.Count)
			}
		}
		unwatched[i].Controller = &counted
	})
}

// maxCounted limits the controllers whose objects the API server counts.
const maxCounted = 50

// noteIncomplete notes why a process may run fewer controllers than expected.
func (o *overview) noteIncomplete(t *processInfo) {
	if selector := t.Process.Selector; selector != "" && !slices.Contains(o.Selectors, selector) {
		o.Selectors = append(o.Selectors, selector)
	}
	if t.Err != nil || slices.ContainsFunc(t.Process.Watches, func(w inspect.Watch) bool { return !w.Synced || w.Error != "" }) {
		o.Unsynced = append(o.Unsynced, t.Source.Name())
	}
}

// count adds a controller to the sums.
func (o *overview) count(row *controllerRow) {
	o.Objects += row.Objects
	o.Failing += row.Failing
	switch {
	case row.Lost != nil:
		o.Lost++
	case row.Suspended:
		o.Suspended++
	case row.Standby:
		o.Standby++
	}
	if row.Health.Tone == "bad" {
		o.Unhealthy++
	}
}

// canSee reports whether the user may see a controller.
func (req *request) canSee(c *inspect.Controller) bool { return inspect.CanView(c, req.can) }

// redactController removes what the controller says about objects that the user may not read.
func (req *request) redactController(c *inspect.Controller) {
	*c = inspect.RedactController(*c, req.can)
}

// visibleProcesses returns the processes with the controllers that the user may see.
func (req *request) visibleProcesses(all []processInfo) []processInfo {
	found := make([]processInfo, len(all))
	for i, t := range all {
		found[i] = t
		found[i].Controllers = filterAllowed(t.Controllers, func(c *inspect.Controller) bool {
			if !req.canSee(c) {
				return false
			}
			req.redactController(c)
			return true
		})
	}
	return found
}

// canSeeWatch reports whether the user may list the objects of a watch. Processes of older
// versions do not report its kind.
func (req *request) canSeeWatch(w *inspect.Watch) bool {
	return req.usesOwnCredentials() || w.Kind.Plural != "" && req.can("list", w.Kind, w.Namespace, "")
}

func (req *request) newProcessCard(t processInfo) processCard {
	all := t.Process.Watches
	t.Process.Watches = filterAllowed(all, req.canSeeWatch)
	card := processCard{processInfo: t, Plots: newPlots(t.Process.Series), Cache: cacheStats{Hidden: len(all) - len(t.Process.Watches)}}
	if !t.Process.Started.IsZero() {
		card.Uptime = req.now().Sub(t.Process.Started)
	}
	for _, w := range t.Process.Watches {
		card.Cache.Objects += w.Objects
		card.Cache.Bytes += w.Bytes
		if w.Error != "" {
			card.Cache.FailedWatches = append(card.Cache.FailedWatches, w)
		}
	}
	return card
}

// plot is a sparkline with its labels.
type plot struct {
	Name, Latest, Label string
	// Rate is the rate per minute, in words.
	Rate string
	// Class is the CSS class of its color.
	Class  string
	Values []float64
}

// newPlots returns the plots of a series: runs, errors and latency. It returns nil if there is
// no data.
func newPlots(s inspect.Series) []plot {
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
	return []plot{
		ran, errors,
		{Name: "Latency", Latest: durationOrDash(latest), Class: "wait", Values: took, Label: "latest median run time: " +
			durationOrDash(latest)},
	}
}

// ratePlot returns a plot of events since the first of them.
func ratePlot(one string, n int, since time.Duration, over string) plot {
	p := plot{Name: format.Capitalize(one) + "s", Label: format.Plural(n, one, one+"s") + " in " + over, Latest: "0", Rate: "no " + one + "s in " +
		over}
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

// durationOrDash formats a duration; a dash for zero.
func durationOrDash(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return format.Duration(d)
}

// plotWidth and plotHeight are the viewBox of a plot.
const (
	plotWidth  = 120
	plotHeight = 28
)

// Points returns the points of a line through the values; "" if there are too few.
func (p plot) Points() string {
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
