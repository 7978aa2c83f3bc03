package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

type overview struct {
	Processes   []processCard
	Controllers *web.List[processes.ControllerRow]
	// Hidden is the number of controllers that the user may not read.
	Hidden int
	// Sums over all visible controllers.
	Objects, Failing, Suspended, Standby, Lost, Unhealthy int
	// Unreachable reports that the API server does not respond. Selectors limit which
	// controllers processes run. Unsynced are processes whose watches are not synced.
	Unreachable         bool
	Selectors, Unsynced []string
}

// processCard is one process, or why it is unavailable.
type processCard struct {
	processes.Info
	Uptime time.Duration
	Cache  cacheStats
	Plots  []processes.Plot
}

// cacheStats sums the watches of a process that the user may see. Hidden is the number of other watches.
type cacheStats struct {
	Objects, Bytes int
	FailedWatches  []inspect.Watch
	Hidden         int
}

func showOverview(req *request) error {
	o := req.buildOverview()
	// A page that is incomplete because the API server is down returns an error instead.
	o.Unreachable = req.AccessError() == nil && req.Cluster.IsDown(req.Context())
	return req.Render(web.Page{Name: "overview", Title: "Overview", Section: "overview", Data: o})
}

func (req *request) buildOverview() overview {
	var o overview
	var rows []processes.ControllerRow
	known := req.Processes.Fetch(req.Context())
	for i, t := range processes.Visible(known, req.Can) {
		o.Processes = append(o.Processes, req.newProcessCard(t))
		if selector := t.Process.Selector; selector != "" && !slices.Contains(o.Selectors, selector) {
			o.Selectors = append(o.Selectors, selector)
		}
		if t.Err != nil || slices.ContainsFunc(t.Process.Watches, func(w inspect.Watch) bool { return !w.Synced || w.Error != "" }) {
			o.Unsynced = append(o.Unsynced, t.Source.Name())
		}
		o.Hidden += len(known[i].Controllers) - len(t.Controllers)
		for k := range t.Controllers {
			rows = append(rows, processes.NewControllerRow(&t.Controllers[k], &t))
		}
	}
	req.countUnwatched(rows)
	for i := range rows {
		o.count(&rows[i])
	}
	slices.SortStableFunc(rows, func(a, b processes.ControllerRow) int {
		return cmp.Or(cmp.Compare(a.ShortName, b.ShortName), cmp.Compare(a.Name, b.Name))
	})
	o.Controllers = web.NewList(req.Request, rows, controllerSpec())
	return o
}

func controllerSpec() *web.ListSpec[processes.ControllerRow] {
	return &web.ListSpec[processes.ControllerRow]{
		Target: "overview", One: "controller", More: "controllers", Label: "States", States: processes.ControllerStates(), Default: "state",
		State: func(r *processes.ControllerRow) string { return string(r.Health.State) },
		Texts: func(r *processes.ControllerRow) []string { return []string{r.Name, r.TypeLabel} },
		Columns: []web.ListColumn[processes.ControllerRow]{
			{Name: "Controller", Sort: "name", Compare: web.CompareText(func(r *processes.ControllerRow) string { return r.ShortName })},
			{Name: "Health", Sort: "state",
				Compare: func(a, b *processes.ControllerRow) int { return cmp.Compare(a.Health.Rank, b.Health.Rank) }},
			{Name: "Handles"},
			{Name: "Objects", Sort: "objects", Class: "number",
				Compare: web.CompareMost(func(r *processes.ControllerRow) int { return r.Objects })},
			{Name: "Failing", Sort: "failing", Class: "number",
				Compare: web.CompareMost(func(r *processes.ControllerRow) int { return r.Failing })},
			{Name: "Changed", Sort: "changed", Class: "since",
				Compare: web.CompareLatest(func(r *processes.ControllerRow) time.Time { return r.Ready().Since })},
			{Name: "Activity (10 min)", Class: "activity"},
		},
	}
}

// countUnwatched counts the objects of suspended controllers and of those whose process has ended, which watch none.
func (req *request) countUnwatched(rows []processes.ControllerRow) {
	var unwatched []*processes.ControllerRow
	for i := range rows {
		if c := &rows[i]; (c.Suspended || c.Lost != nil) && len(c.Kinds) > 0 && len(unwatched) < maxCounted {
			unwatched = append(unwatched, c)
		}
	}
	userclient.InParallel(len(unwatched), func(i int) {
		counted := *unwatched[i].Controller
		counted.Objects = 0
		for _, kind := range counted.Kinds {
			if !req.Can("list", kind, "", "") {
				continue
			}
			if tally := req.API.Count(req.Context(), kind, ""); tally.Err == nil {
				counted.Objects += int(tally.Count)
			}
		}
		unwatched[i].Controller = &counted
	})
}

const maxCounted = 50

func (o *overview) count(row *processes.ControllerRow) {
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

func (req *request) newProcessCard(t processes.Info) processCard {
	all := t.Process.Watches
	t.Process.Watches = userclient.FilterAllowed(all, func(w *inspect.Watch) bool { // Processes of older versions do not report its kind.
		return req.UsesOwnCredentials() || w.Kind.Plural != "" && req.Can("list", w.Kind, w.Namespace, "")
	})
	card := processCard{Info: t, Plots: processes.Plots(t.Process.Series), Cache: cacheStats{Hidden: len(all) - len(t.Process.Watches)}}
	if !t.Process.Started.IsZero() {
		card.Uptime = req.Now().Sub(t.Process.Started)
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
