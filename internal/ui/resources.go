package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// resources is what the page of all kinds shows: those that controllers care for, and
// those of what they make.
type resources struct {
	Cared, Made []*handled
	// Others are all other kinds, by the names that URLs have for them.
	Others []string
}

// handled is a kind and who has to do with it.
type handled struct {
	inspect.Kind
	By []inspect.Controller
	// Count is how many the visitor sees, Problem why they see none.
	Count   int64
	Problem string
}

func showResources(v *visit) error {
	if wanted := v.query("kind"); wanted != "" {
		kind, err := v.api.Kind(v.context(), wanted)
		if err != nil {
			return err
		}
		return v.redirect(resourceURL(kind))
	}
	data := resources{}
	for _, t := range v.seen(v.ask()) {
		for _, c := range t.Controllers {
			data.Cared = attribute(data.Cared, c, c.Kinds)
			data.Made = attribute(data.Made, c, c.Children)
		}
	}
	sortKinds(data.Cared)
	sortKinds(data.Made)
	if err := v.countAll(slices.Concat(data.Cared, data.Made)); err != nil {
		return err
	}
	if !v.within("resources") {
		data.Others = v.others(&data)
	}
	return v.render(page{Name: "resources", Title: "Resources", Section: "resources", Data: data})
}

// attribute notes that a controller has to do with kinds.
func attribute(all []*handled, c inspect.Controller, kinds []inspect.Kind) []*handled {
	for _, kind := range kinds {
		i := slices.IndexFunc(all, func(h *handled) bool { return sameKind(h.Kind, kind) })
		if i < 0 {
			i, all = len(all), append(all, &handled{Kind: kind})
		}
		all[i].By = append(all[i].By, c)
	}
	return all
}

// sameKind is true also for two versions of a kind.
func sameKind(a, b inspect.Kind) bool { return a.Group == b.Group && a.Kind == b.Kind }

func sortKinds(all []*handled) {
	slices.SortFunc(all, func(a, b *handled) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Group, b.Group))
	})
}

// countAll counts the objects of kinds by asking for one of each. It is an error if
// nobody answers for any of them.
func (v *visit) countAll(all []*handled) error {
	failures := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(6)
	for i, each := range all {
		group.Go(func() error {
			failures[i] = each.count(v.context(), v.api)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	if len(all) > 0 && !slices.ContainsFunc(failures, func(err error) bool { return err == nil || !unreachable(err) }) {
		return failures[0]
	}
	return nil
}

func (h *handled) count(ctx context.Context, api *asuser.Client) error {
	tally := api.Count(ctx, h.Kind, "")
	if tally.Err != nil {
		h.Problem = problemOf(tally.Err).Title
	}
	h.Count = tally.Count
	return tally.Err
}

// others are the kinds that no controller has to do with. Without an answer there are
// none: the page is about the others.
func (v *visit) others(data *resources) []string {
	kinds, err := v.api.Kinds(v.context())
	if err != nil {
		v.log.Debug("kinds are not known", "error", err.Error())
	}
	known := slices.Concat(data.Cared, data.Made)
	var names []string
	for _, kind := range kinds {
		is := func(h *handled) bool { return sameKind(h.Kind, kind) }
		if !strings.Contains(kind.Plural, "/") && !slices.ContainsFunc(known, is) {
			names = append(names, kind.Resource())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
