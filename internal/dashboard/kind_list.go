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
