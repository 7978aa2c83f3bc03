package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// resourcesPage is the data of the page of all kinds: managed kinds and child kinds.
type resourcesPage struct {
	Managed, Children *web.List[*kindRow]
	// Others are the other resources.
	Others []string
}

// kindRow is a kind and its controllers.
type kindRow struct {
	object.Kind
	Controllers []processes.ControllerRow
	// Count is how many objects the user sees, Problem why that is unknown.
	Count   int64
	Problem string
}

func showResources(req *request) error {
	if wanted := req.Query("kind"); wanted != "" {
		kind, err := req.API.CurrentKind(req.Context(), wanted)
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

// kindSpec is a list of kinds.
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
			{Name: controllers, Sort: "state", Compare: func(a, b **kindRow) int {
				return cmp.Compare((*a).worst().Rank,
					(*b).worst().Rank)
			}},
		},
	}
}

// worst returns the health of the least healthy controller.
func (h *kindRow) worst() processes.Health {
	worst := h.Controllers[0].Health
	for i := range h.Controllers {
		if each := h.Controllers[i].Health; each.Rank < worst.Rank {
			worst = each
		}
	}
	return worst
}

// addKinds adds a controller to the rows of its kinds.
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

// countObjects counts the objects of each kind. It returns an error if the API server is
// unreachable.
func (req *request) countObjects(all []*kindRow) error {
	failures := make([]error, len(all))
	userclient.InParallel(len(all), 6, func(i int) {
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

// otherKinds returns the resources without a controller. They are optional, so errors are only
// logged.
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

// maxSortedRows is how many objects are read to sort them.
const maxSortedRows = 20_000

// objectRowSpec is the list of the objects of a kind. Its default is the order of the API server.
func objectRowSpec(defaultSort string) *web.ListSpec[objectRow] {
	name := func(r *objectRow) string { return r.Name }
	return &web.ListSpec[objectRow]{
		Target: "objects", One: "object", More: "objects", Label: "States", States: processes.ObjectStates(), Default: defaultSort,
		State: (*objectRow).worst,
		Columns: []web.ListColumn[objectRow]{
			{Name: "Name", Sort: "name", Compare: web.CompareText(name)},
			{Name: "Namespace", Sort: "namespace", Compare: func(a, b *objectRow) int {
				return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
			}},
			{Name: "State", Sort: "state", Compare: func(a, b *objectRow) int {
				return cmp.Compare(stateRank(a.worst()), stateRank(b.worst()))
			}},
			{Name: "Age", Sort: "created", Compare: web.CompareLatest(func(r *objectRow) time.Time { return r.Created })},
		},
	}
}

// stateRank orders states by severity. Objects without a controller are last.
func stateRank(state string) int {
	if at := slices.Index(processes.ObjectStates(), state); at >= 0 {
		return at
	}
	return len(processes.ObjectStates())
}

// kindListView returns the list of a kind without its rows.
func kindListView(kind object.Kind, namespace string) web.ListView {
	if kind.Namespaced && namespace == "" {
		return objectRowSpec("namespace").View()
	}
	return objectRowSpec("name").View()
}

// isSorted reports whether the order or the filter is not one of the API server.
func (p *kindPage) isSorted() bool {
	return p.State != "" || p.Reverse || p.Sort != "" && p.Sort != p.Default
}

// Header returns the column headers: those that sort, and those of kubectl.
func (p *kindPage) Header() []web.Column {
	var header []web.Column
	age := web.Column{}
	for _, c := range p.ListView.Columns() {
		switch {
		case c.Sort == "created":
			age = c
		case c.Sort == "namespace" && (!p.Namespaced || p.Namespace != ""), c.Sort == "state" && len(p.Controllers) == 0:
		default:
			header = append(header, c)
		}
	}
	for _, printed := range p.Columns {
		c := web.Column{Name: printed.Name, Title: printed.Description}
		if printed.Name == age.Name {
			c.URL, c.Sorted, c.Sort = age.URL, age.Sorted, age.Sort
		}
		header = append(header, c)
	}
	return header
}

// Filters returns the filters by state. Their numbers are known only of a list that is in memory.
func (p *kindPage) Filters() []web.StateFilter {
	if p.isSorted() {
		return p.ListView.Filters()
	}
	for _, state := range inspect.States() {
		p.Counts[string(state)] = 1
	}
	all := p.ListView.Filters()
	for i := range all {
		all[i].Count = -1
	}
	return all
}

// listSorted reads the objects, and sorts and filters them. If the list is long and a controller
// caches all of it, its process does that.
func (req *request) listSorted(data *kindPage, query userclient.TableQuery, all []processes.Info) error {
	query.Limit, query.Continue = searchPageSize, ""
	seen := 0
	for {
		table, err := req.API.Table(req.Context(), data.Kind, query)
		if err != nil {
			return err
		}
		if total := int64(len(table.Rows)) + table.Remaining; seen == 0 && table.Continue != "" {
			if done, err := req.listCached(data, &table, total, all); done || err != nil {
				return err
			}
		}
		seen += len(table.Rows)
		table.Rows = slices.DeleteFunc(table.Rows, func(r userclient.Row) bool { return !strings.Contains(r.Name, data.Name) })
		data.addRows(table.Columns, table.Rows)
		if query.Continue = table.Continue; query.Continue == "" {
			break
		}
		if seen >= maxSortedRows {
			data.Note = "Only the first " + format.Count(seen) +
				" objects are sorted and filtered. Filter by namespace or labels to sort all."
			break
		}
	}
	req.addStates(data, all)
	sorted := web.NewList(req.Request, data.Rows, objectRowSpec(data.Default))
	data.ListView, data.Rows = sorted.ListView, sorted.Rows
	data.PreviousURL, data.NextURL = data.Pager().PreviousURL(), data.Pager().NextURL()
	return nil
}

// cachedSort is the order of a process for an order of the list; false if it has none. A process
// sorts names within their namespaces.
func (p *kindPage) cachedSort() (by string, has bool) {
	switch sort := cmp.Or(p.Sort, p.Default); {
	case sort == "created":
		return sort, true
	case sort == "state":
		return "", true
	case sort == "namespace", sort == "name" && !p.Namespaced:
		return "name", true
	}
	return "", false
}

// listCached takes the page from the only controller of the kind, if that has as many objects as
// the user may list, which are then the same. It returns false if there is none.
func (req *request) listCached(data *kindPage, table *userclient.Table, total int64, all []processes.Info) (done bool, err error) {
	by, sorts := data.cachedSort()
	if !sorts || data.Name != "" || data.Labels != "" || data.Namespace != "" || len(data.Controllers) != 1 ||
		len(data.Controllers[0].Kinds) != 1 {
		return false, nil
	}
	for i := range all {
		t, c := &all[i], &data.Controllers[0]
		if t.Source.Name() != c.Process || processes.Unwatched(t, c) != "" {
			continue
		}
		l := &objectList{ListView: data.ListView, Kinds: []object.Kind{data.Kind}}
		l.Query = inspect.Query{State: inspect.State(l.State), Sort: by, Reverse: l.Reverse, Offset: l.Offset, Limit: web.PageSize}
		if err := req.loadObjects(l, t, c); err != nil || int64(l.Total) != total {
			return false, nil //nolint:nilerr // The API server has the list too.
		}
		if err := req.addByName(data, table.Columns, l.Objects); err != nil {
			return true, err
		}
		data.ListView = l.ListView
		data.joinStates(req.redactStates(l.Objects))
		data.PreviousURL, data.NextURL = data.Pager().PreviousURL(), data.Pager().NextURL()
		return true, nil
	}
	return false, nil
}

// Limits of a search by name: how many objects are searched, in pages of which size, and how
// many are fetched by name.
const (
	maxSearchedRows = 10_000
	searchPageSize  = 500
	maxLookups      = 20
)

// search lists objects until a page of matches is full. If the list is long and a controller
// caches all of it, the controller finds the names.
func (req *request) search(data *kindPage, query userclient.TableQuery, all []processes.Info) error {
	query.Limit, query.Continue = searchPageSize, ""
	seen := 0
	for {
		table, err := req.API.Table(req.Context(), data.Kind, query)
		if err != nil {
			return err
		}
		if there := int64(len(table.Rows)) + table.Remaining; seen == 0 && table.Continue != "" && query.Labels == "" {
			if names, known := req.findByName(data, all, there); known {
				return req.addByName(data, table.Columns, names)
			}
		}
		seen += len(table.Rows)
		table.Rows = slices.DeleteFunc(table.Rows, func(r userclient.Row) bool { return !strings.Contains(r.Name, data.Name) })
		data.addRows(table.Columns, table.Rows)
		query.Continue = table.Continue
		if data.isFull(seen, query.Continue == "") {
			return nil
		}
	}
}

// isFull reports whether to stop, and notes why the result is incomplete.
func (p *kindPage) isFull(seen int, all bool) bool {
	switch {
	case len(p.Rows) > pageRows:
		p.Rows = p.Rows[:pageRows]
		p.Note = "More names match. Narrow the filter."
	case all:
	case seen >= maxSearchedRows:
		p.Note = "Only the first " + format.Count(seen) + " objects were searched. Filter by namespace or labels to search all."
	default:
		return false
	}
	return true
}

// findByName finds names in the cache of a controller that has as many objects as the user
// listed, which are then the same. It returns false if there is no such controller, or too many
// matches.
func (req *request) findByName(data *kindPage, all []processes.Info, there int64) (found []inspect.ObjectState, known bool) {
	for _, t := range all {
		for _, c := range processes.Managing([]processes.Info{t}, data.Kind) {
			has, err := req.fetchObjects(t.Source, c.Name, data.query(1))
			if err != nil || int64(has.Matching) != there {
				continue
			}
			query := data.query(maxStates)
			query.Text = data.Name
			fits, err := req.fetchObjects(t.Source, c.Name, query)
			if err != nil || fits.Matching > len(fits.Objects) {
				continue
			}
			// The filter also matches namespaces and errors.
			fit := slices.DeleteFunc(fits.Objects, func(c inspect.ObjectState) bool { return !strings.Contains(c.Name, data.Name) })
			return fit, len(fit) <= maxLookups
		}
	}
	return nil, false
}

// addByName fetches objects by name.
func (req *request) addByName(data *kindPage, columns []userclient.Column, found []inspect.ObjectState) error {
	tables := make([]userclient.Table, len(found))
	group, ctx := errgroup.WithContext(req.Context())
	group.SetLimit(6)
	for i := range found {
		group.Go(func() (err error) {
			tables[i], err = req.API.Table(ctx, data.Kind, userclient.TableQuery{
				Namespace: found[i].Namespace, Fields: "metadata.name=" + found[i].Name, Limit: 1,
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	data.addRows(columns, nil)
	for _, table := range tables {
		data.addRows(table.Columns, table.Rows)
	}
	return nil
}
