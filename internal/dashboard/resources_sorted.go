package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxSortedRows is how many objects are read to sort them.
const maxSortedRows = 20_000

// objectRowSpec is the list of the objects of a kind. Its default is the order of the API server.
func objectRowSpec(defaultSort string) *listSpec[objectRow] {
	name := func(r *objectRow) string { return r.Name }
	return &listSpec[objectRow]{
		Target: "objects", One: "object", More: "objects", Label: "States", States: objectStateNames(), Default: defaultSort,
		State: (*objectRow).worst,
		Columns: []listColumn[objectRow]{
			{Name: "Name", Sort: "name", Compare: compareText(name)},
			{Name: "Namespace", Sort: "namespace", Compare: func(a, b *objectRow) int {
				return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
			}},
			{Name: "State", Sort: "state", Compare: func(a, b *objectRow) int {
				return cmp.Compare(stateRank(a.worst()), stateRank(b.worst()))
			}},
			{Name: "Age", Sort: "created", Compare: compareLatest(func(r *objectRow) time.Time { return r.Created })},
		},
	}
}

// stateRank orders states by severity. Objects without a controller are last.
func stateRank(state string) int {
	if at := slices.Index(objectStateNames(), state); at >= 0 {
		return at
	}
	return len(objectStateNames())
}

// kindListView returns the list of a kind without its rows.
func kindListView(kind object.Kind, namespace string) listView {
	if kind.Namespaced && namespace == "" {
		return objectRowSpec("namespace").view()
	}
	return objectRowSpec("name").view()
}

// isSorted reports whether the order or the filter is not one of the API server.
func (p *kindPage) isSorted() bool {
	return p.State != "" || p.Reverse || p.Sort != "" && p.Sort != p.Default
}

// Header returns the column headers: those that sort, and those of kubectl.
func (p *kindPage) Header() []column {
	var header []column
	age := column{}
	for _, c := range p.listView.Columns() {
		switch {
		case c.sort == "created":
			age = c
		case c.sort == "namespace" && (!p.Namespaced || p.Namespace != ""), c.sort == "state" && len(p.Controllers) == 0:
		default:
			header = append(header, c)
		}
	}
	for _, printed := range p.Columns {
		c := column{Name: printed.Name, Title: printed.Description}
		if printed.Name == age.Name {
			c.URL, c.Sorted, c.sort = age.URL, age.Sorted, age.sort
		}
		header = append(header, c)
	}
	return header
}

// Filters returns the filters by state. Their numbers are known only of a list that is in memory.
func (p *kindPage) Filters() []stateFilter {
	if p.isSorted() {
		return p.listView.Filters()
	}
	for _, state := range inspect.States() {
		p.counts[string(state)] = 1
	}
	all := p.listView.Filters()
	for i := range all {
		all[i].Count = -1
	}
	return all
}

// listSorted reads the objects, and sorts and filters them. If the list is long and a controller
// caches all of it, its process does that.
func (req *request) listSorted(data *kindPage, query userclient.TableQuery, all []processInfo) error {
	query.Limit, query.Continue = searchPageSize, ""
	seen := 0
	for {
		table, err := req.api.Table(req.context(), data.Kind, query)
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
			data.Note = "Only the first " + formatCount(seen) +
				" objects are sorted and filtered. Filter by namespace or labels to sort all."
			break
		}
	}
	req.addStates(data, all)
	sorted := newList(req, data.Rows, objectRowSpec(data.Default))
	data.listView, data.Rows = sorted.listView, sorted.Rows
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
func (req *request) listCached(data *kindPage, table *userclient.Table, total int64, all []processInfo) (done bool, err error) {
	by, sorts := data.cachedSort()
	if !sorts || data.Name != "" || data.Labels != "" || data.Namespace != "" || len(data.Controllers) != 1 ||
		len(data.Controllers[0].Kinds) != 1 {
		return false, nil
	}
	for i := range all {
		t, c := &all[i], &data.Controllers[0]
		if t.Source.Name() != c.Process || unwatchedState(t, c) != "" {
			continue
		}
		l := &objectList{listView: data.listView, Kinds: []object.Kind{data.Kind}}
		l.Query = inspect.Query{State: inspect.State(l.State), Sort: by, Reverse: l.Reverse, Offset: l.Offset, Limit: pageSize}
		if err := req.loadObjects(l, t, c); err != nil || int64(l.Total) != total {
			return false, nil //nolint:nilerr // The API server has the list too.
		}
		if err := req.addByName(data, table.Columns, l.Objects); err != nil {
			return true, err
		}
		data.listView = l.listView
		data.joinStates(req.redactStates(l.Objects))
		data.PreviousURL, data.NextURL = data.Pager().PreviousURL(), data.Pager().NextURL()
		return true, nil
	}
	return false, nil
}
