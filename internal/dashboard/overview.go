package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// overview is what the first page shows: all processes and all their controllers.
type overview struct {
	Processes   []processCard
	Controllers []controllerRow
	// Hidden is how many controllers there are that the visitor may not see.
	Hidden int
	// Sums over all that is seen.
	Objects, Failing, Suspended, Unhealthy int
	// MultipleProcesses says that there is more than one process.
	MultipleProcesses bool
	// Unreachable says that the API server does not answer. Selectors are those that
	// narrow what processes run, and Unsynced those processes that do not know yet what
	// there is.
	Unreachable         bool
	Selectors, Unsynced []string
}

// processCard is one process, or why nothing is known of it.
type processCard struct {
	processInfo
	Uptime time.Duration
	Cache  cacheStats
	Plots  []plot
}

// cacheStats is what the watches of a process hold, as far as the visitor may see it; Hidden
// is how many watches they may not.
type cacheStats struct {
	Objects, Bytes int
	FailedWatches  []model.Watch
	Hidden         int
}

func showOverview(req *request) error {
	o := req.buildOverview()
	// What is not known for an API server that does not answer is no page.
	o.Unreachable = req.accessErrors.first() == nil && req.probe.isDown(req.context())
	return req.render(page{Name: "overview", Title: "Overview", Section: "overview", Data: o})
}

func (req *request) buildOverview() overview {
	var o overview
	processes := req.fetchProcesses()
	for i, t := range req.visibleProcesses(processes) {
		o.Processes = append(o.Processes, req.newProcessCard(t))
		o.noteIncomplete(&t)
		o.Hidden += len(processes[i].Controllers) - len(t.Controllers)
		for _, c := range t.Controllers {
			o.addController(&c, &t.Process)
		}
	}
	o.MultipleProcesses = len(o.Processes) > 1
	slices.SortStableFunc(o.Controllers, func(a, b controllerRow) int {
		return cmp.Or(cmp.Compare(a.Health.Rank, b.Health.Rank), cmp.Compare(a.ShortName, b.ShortName), cmp.Compare(a.Name, b.Name))
	})
	return o
}

// noteIncomplete notes why a process may run fewer controllers than there are.
func (o *overview) noteIncomplete(t *processInfo) {
	if selector := t.Process.Selector; selector != "" && !slices.Contains(o.Selectors, selector) {
		o.Selectors = append(o.Selectors, selector)
	}
	if t.Err != nil || slices.ContainsFunc(t.Process.Watches, func(w model.Watch) bool { return !w.Synced || w.Error != "" }) {
		o.Unsynced = append(o.Unsynced, t.Source.Name())
	}
}

func (o *overview) addController(c *model.Controller, of *model.Process) {
	row := newControllerRow(c, of)
	o.Controllers = append(o.Controllers, row)
	o.Objects += c.Objects
	o.Failing += c.Failing
	if c.Suspended {
		o.Suspended++
	}
	if row.Health.Tone == "bad" {
		o.Unhealthy++
	}
}

// canSee says whether a visitor may know of a controller.
func (req *request) canSee(c *model.Controller) bool { return model.CanView(c, req.can) }

// redactController leaves out what the controller says of objects that the visitor may not see.
func (req *request) redactController(c *model.Controller) { *c = model.RedactController(*c, req.can) }

// visibleProcesses is what processes tell, without the controllers of which the visitor may not
// know, and of the others without what they may not hear.
func (req *request) visibleProcesses(all []processInfo) []processInfo {
	found := make([]processInfo, len(all))
	for i, t := range all {
		found[i] = t
		found[i].Controllers = filterAllowed(t.Controllers, func(c *model.Controller) bool {
			if !req.canSee(c) {
				return false
			}
			req.redactController(c)
			return true
		})
	}
	return found
}

// canSeeWatch says whether a visitor may know of a watch: who may list what it holds. A
// process of another version does not say what that is.
func (req *request) canSeeWatch(w *model.Watch) bool {
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
