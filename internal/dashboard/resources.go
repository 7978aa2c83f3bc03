package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// resourcesPage is the data of the page of all kinds: managed kinds and child kinds.
type resourcesPage struct {
	Managed, Children *list[*kindRow]
	// Others are the other resources.
	Others []string
}

// kindRow is a kind and its controllers.
type kindRow struct {
	object.Kind
	Controllers []controllerRow
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
	var managed, children []*kindRow
	for _, t := range req.visibleProcesses(req.fetchProcesses()) {
		for i := range t.Controllers {
			c := newControllerRow(&t.Controllers[i], &t)
			managed, children = addKinds(managed, c, c.Kinds), addKinds(children, c, c.Children)
		}
	}
	sortKinds(managed)
	sortKinds(children)
	all := slices.Concat(managed, children)
	if err := req.countObjects(all); err != nil {
		return err
	}
	data := resourcesPage{Managed: newList(req, managed, kindSpec("Managed by")), Children: newList(req, children, kindSpec("Created by"))}
	if !req.targets("resources") {
		data.Others = req.otherKinds(all)
	}
	return req.render(page{Name: "resources", Title: "Resources", Section: "resources", Data: data})
}

// kindSpec is a list of kinds.
func kindSpec(controllers string) *listSpec[*kindRow] {
	return &listSpec[*kindRow]{
		Target: "resources", One: "kind", More: "kinds", Label: "Health of the controllers", States: controllerStates(), Default: "name",
		State: func(row **kindRow) string { return string((*row).worst().State) },
		Columns: []listColumn[*kindRow]{
			{Name: "Kind", Sort: "name", Compare: compareText(func(row **kindRow) string { return (*row).Kind.Kind + "." + (*row).Group })},
			{Name: "Group", Sort: "group", Compare: compareText(func(row **kindRow) string { return (*row).Group })},
			{Name: "Objects", Sort: "objects", Class: "number", Compare: compareMost(func(row **kindRow) int64 { return (*row).Count })},
			{Name: controllers, Sort: "state", Compare: func(a, b **kindRow) int {
				return cmp.Compare((*a).worst().Rank,
					(*b).worst().Rank)
			}},
		},
	}
}

// worst returns the health of the least healthy controller.
func (h *kindRow) worst() health {
	worst := h.Controllers[0].Health
	for i := range h.Controllers {
		if each := h.Controllers[i].Health; each.Rank < worst.Rank {
			worst = each
		}
	}
	return worst
}

// addKinds adds a controller to the rows of its kinds.
func addKinds(all []*kindRow, c controllerRow, kinds []object.Kind) []*kindRow {
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
func (req *request) otherKinds(known []*kindRow) []string {
	kinds, err := req.api.Kinds(req.context())
	if err != nil {
		req.log.Debug("kinds are not known", "error", err.Error())
	}
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
