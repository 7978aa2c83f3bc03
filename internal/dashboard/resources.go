package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// resourcesPage is the data of the page of all kinds: managed kinds and child kinds.
type resourcesPage struct {
	Managed, Children []*kindRow
	// Others are the other resources.
	Others []string
}

// kindRow is a kind and its controllers.
type kindRow struct {
	object.Kind
	Controllers []model.Controller
	// Count is how many objects the user sees, Problem why that is unknown.
	Count   int64
	Problem string
}

func showResources(req *request) error {
	if wanted := req.query("kind"); wanted != "" {
		kind, err := req.api.CurrentKind(req.context(), wanted)
		if err != nil {
			return err
		}
		return req.redirect(resourceURL(kind))
	}
	data := resourcesPage{}
	for _, t := range req.visibleProcesses(req.fetchProcesses()) {
		for _, c := range t.Controllers {
			data.Managed = addKinds(data.Managed, c, c.Kinds)
			data.Children = addKinds(data.Children, c, c.Children)
		}
	}
	sortKinds(data.Managed)
	sortKinds(data.Children)
	if err := req.countObjects(slices.Concat(data.Managed, data.Children)); err != nil {
		return err
	}
	if !req.targets("resources") {
		data.Others = req.otherKinds(&data)
	}
	return req.render(page{Name: "resources", Title: "Resources", Section: "resources", Data: data})
}

// addKinds adds a controller to the rows of its kinds.
func addKinds(all []*kindRow, c model.Controller, kinds []object.Kind) []*kindRow {
	for _, kind := range kinds {
		i := slices.IndexFunc(all, func(h *kindRow) bool { return h.GroupKind() == kind.GroupKind() })
		if i < 0 {
			i, all = len(all), append(all, &kindRow{Kind: kind})
		}
		all[i].Controllers = append(all[i].Controllers, c)
	}
	return all
}

func sortKinds(all []*kindRow) {
	slices.SortFunc(all, func(a, b *kindRow) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Group, b.Group))
	})
}

// countObjects counts the objects of each kind. It returns an error if the API server is
// unreachable.
func (req *request) countObjects(all []*kindRow) error {
	failures := make([]error, len(all))
	inParallel(len(all), 6, func(i int) {
		tally := req.api.Count(req.context(), all[i].Kind, "")
		if failures[i] = tally.Err; tally.Err != nil {
			all[i].Problem = problemOf(tally.Err).Title
		}
		all[i].Count = tally.Count
	})
	if len(all) > 0 && !slices.ContainsFunc(failures, func(err error) bool { return err == nil || !userclient.IsUnreachable(err) }) {
		return failures[0]
	}
	return nil
}

// otherKinds returns the resources without a controller. They are optional, so errors are only
// logged.
func (req *request) otherKinds(data *resourcesPage) []string {
	kinds, err := req.api.Kinds(req.context())
	if err != nil {
		req.log.Debug("kinds are not known", "error", err.Error())
	}
	known := slices.Concat(data.Managed, data.Children)
	var names []string
	for _, kind := range kinds {
		is := func(h *kindRow) bool { return h.GroupKind() == kind.GroupKind() }
		if !strings.Contains(kind.Plural, "/") && !slices.ContainsFunc(known, is) {
			names = append(names, kind.Resource())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
