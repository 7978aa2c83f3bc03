package ui

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// overview is what the first page shows: all processes and all their controllers.
type overview struct {
	Processes   []processCard
	Controllers []controllerRow
	// Hidden is how many controllers there are that the visitor may not see.
	Hidden int
	// Sums over all that is seen.
	Objects, Failing, Suspended, Unwell int
	// Several says that there is more than one process.
	Several bool
	// Unreachable says that the API server does not answer. Selectors are those that
	// narrow what processes run, and Unsynced those processes that do not know yet what
	// there is.
	Unreachable         bool
	Selectors, Unsynced []string
}

// processCard is one process, or why nothing is known of it.
type processCard struct {
	told
	Up     time.Duration
	Cached cached
	Plots  []plot
}

// cached is what the watches of a process hold, as far as the visitor may see it; Hidden
// is how many watches they may not.
type cached struct {
	Objects, Bytes int
	Broken         []inspect.Watch
	Hidden         int
}

func showOverview(v *visit) error {
	o := v.overview()
	// What is not known for an API server that does not answer is no page.
	o.Unreachable = v.doubt.reason() == nil && v.probe.gone(v.context())
	return v.render(page{Name: "overview", Title: "Overview", Section: "overview", Data: o})
}

func (v *visit) overview() overview {
	var o overview
	told := v.ask()
	for i, t := range v.seen(told) {
		o.Processes = append(o.Processes, v.card(t))
		o.incomplete(&t)
		o.Hidden += len(told[i].Controllers) - len(t.Controllers)
		for _, c := range t.Controllers {
			o.add(&c, &t.Process)
		}
	}
	o.Several = len(o.Processes) > 1
	slices.SortStableFunc(o.Controllers, func(a, b controllerRow) int {
		return cmp.Or(cmp.Compare(a.Health.Rank, b.Health.Rank), cmp.Compare(a.Short, b.Short), cmp.Compare(a.Name, b.Name))
	})
	return o
}

// incomplete notes why a process may run fewer controllers than there are.
func (o *overview) incomplete(t *told) {
	if selector := t.Process.Selector; selector != "" && !slices.Contains(o.Selectors, selector) {
		o.Selectors = append(o.Selectors, selector)
	}
	if t.Err != nil || slices.ContainsFunc(t.Process.Watches, func(w inspect.Watch) bool { return !w.Synced || w.Error != "" }) {
		o.Unsynced = append(o.Unsynced, t.Source.Name())
	}
}

func (o *overview) add(c *inspect.Controller, of *inspect.Process) {
	row := rowOf(c, of)
	o.Controllers = append(o.Controllers, row)
	o.Objects += c.Objects
	o.Failing += c.Failing
	if c.Suspended {
		o.Suspended++
	}
	if row.Health.Tone == "bad" {
		o.Unwell++
	}
}

// maySee says whether a visitor may know of a controller.
func (v *visit) maySee(c *inspect.Controller) bool { return inspect.MaySee(c, v.may) }

// discreet leaves out what the controller says of objects that the visitor may not see.
func (v *visit) discreet(c *inspect.Controller) { *c = inspect.RedactController(*c, v.may) }

// seen is what processes tell, without the controllers of which the visitor may not
// know, and of the others without what they may not hear.
func (v *visit) seen(all []told) []told {
	found := make([]told, len(all))
	for i, t := range all {
		found[i] = t
		found[i].Controllers = allowed(t.Controllers, func(c *inspect.Controller) bool {
			if !v.maySee(c) {
				return false
			}
			v.discreet(c)
			return true
		})
	}
	return found
}

// maySeeWatch says whether a visitor may know of a watch: who may list what it holds. A
// process of another version does not say what that is.
func (v *visit) maySeeWatch(w *inspect.Watch) bool {
	return v.own() || w.Kind.Plural != "" && v.may("list", w.Kind, w.Namespace, "")
}

func (v *visit) card(t told) processCard {
	all := t.Process.Watches
	t.Process.Watches = allowed(all, v.maySeeWatch)
	card := processCard{told: t, Plots: plotsOf(t.Process.Series), Cached: cached{Hidden: len(all) - len(t.Process.Watches)}}
	if !t.Process.Started.IsZero() {
		card.Up = v.now().Sub(t.Process.Started)
	}
	for _, w := range t.Process.Watches {
		card.Cached.Objects += w.Objects
		card.Cached.Bytes += w.Bytes
		if w.Error != "" {
			card.Cached.Broken = append(card.Cached.Broken, w)
		}
	}
	return card
}
