package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// resourcesPage is the data of the page of all kinds: managed kinds and child kinds.
type resourcesPage struct {
	Managed, Children *web.List[*kindRow]
	// Others are the other resources.
	Others []string
}

type kindRow struct {
	object.Kind
	Controllers []processes.ControllerRow
	// Count is how many objects the user sees, Problem why that is unknown.
	Count   int64
	Problem string
}

func showResources(req *request) error {
	if wanted := req.Query("kind"); wanted != "" {
		kind, err := req.API.FindCurrentKind(req.Context(), wanted)
		if err != nil {
			return err
		}
		return req.Redirect(web.ResourceURL(kind))
	}
	var managed, children []*kindRow
	for _, t := range processes.Visible(req.Processes.Fetch(req.Context()), req.Can) {
		for i := range t.Controllers {
			c := processes.NewControllerRow(&t.Controllers[i], &t)
			managed, children = addKinds(managed, c, c.Kinds), addKinds(children, c, c.Children)
		}
	}
	sortKinds(managed)
	sortKinds(children)
	all := slices.Concat(managed, children)
	if err := req.countObjects(all); err != nil {
		return err
	}
	data := resourcesPage{
		Managed:  web.NewList(req.Request, managed, kindSpec("Managed by")),
		Children: web.NewList(req.Request, children, kindSpec("Created by")),
	}
	if !req.Targets("resources") {
		data.Others = req.otherKinds(all)
	}
	return req.Render(web.Page{Name: "resources", Title: "Resources", Section: "resources", Data: data})
}

func kindSpec(controllers string) *web.ListSpec[*kindRow] {
	return &web.ListSpec[*kindRow]{
		Target: "resources", One: "kind", More: "kinds", Label: "Health of the controllers", States: processes.ControllerStates(),
		Default: "name",
		State:   func(row **kindRow) string { return string((*row).worst().State) },
		Columns: []web.ListColumn[*kindRow]{
			{Name: "Kind", Sort: "name",
				Compare: web.CompareText(func(row **kindRow) string { return (*row).Kind.Kind + "." + (*row).Group })},
			{Name: "Group", Sort: "group", Compare: web.CompareText(func(row **kindRow) string { return (*row).Group })},
			{Name: "Objects", Sort: "objects", Class: "number",
				Compare: web.CompareMost(func(row **kindRow) int64 { return (*row).Count })},
			{Name: controllers, Sort: "state",
				Compare: func(a, b **kindRow) int { return cmp.Compare((*a).worst().Rank, (*b).worst().Rank) }},
		},
	}
}

// worst returns the health of the least healthy controller.
func (h *kindRow) worst() processes.Health {
	return slices.MinFunc(h.Controllers, func(a, b processes.ControllerRow) int { return cmp.Compare(a.Health.Rank, b.Health.Rank) }).Health
}

func addKinds(all []*kindRow, c processes.ControllerRow, kinds []object.Kind) []*kindRow {
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

// countObjects counts the objects of each kind. It returns an error if the API server is unreachable.
func (req *request) countObjects(all []*kindRow) error {
	failures := make([]error, len(all))
	userclient.InParallel(len(all), func(i int) {
		tally := req.API.Count(req.Context(), all[i].Kind, "")
		if failures[i] = tally.Err; tally.Err != nil {
			all[i].Problem = web.ProblemOf(tally.Err).Title
		}
		all[i].Count = tally.Count
	})
	if len(all) > 0 && !slices.ContainsFunc(failures, func(err error) bool { return err == nil || !userclient.IsUnreachable(err) }) {
		return failures[0]
	}
	return nil
}

// otherKinds returns the resources without a controller. They are optional, so errors are only logged.
func (req *request) otherKinds(known []*kindRow) []string {
	kinds, err := req.API.Kinds(req.Context())
	if err != nil {
		req.Log.Debug("kinds are not known", "error", err.Error())
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
