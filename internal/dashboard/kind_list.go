package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

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

// isWhole reports whether the order or a filter is not one of the API server, so that the list is
// read whole and is in memory.
func (p *kindPage) isWhole() bool {
	return p.Name != "" || p.State != "" || p.Reverse || p.Sort != "" && p.Sort != p.Default
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
	if p.isWhole() {
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

// Limits of a list that is read whole: how many objects are read, in pages of which size.
const (
	maxWholeRows  = 20_000
	wholePageSize = 500
)

// listWhole reads the objects, and sorts and filters them.
func (req *request) listWhole(data *kindPage, query userclient.TableQuery, all []processes.Info) error {
	query.Limit, query.Continue = wholePageSize, ""
	for seen := 0; ; {
		table, err := req.API.Table(req.Context(), data.Kind, query)
		if err != nil {
			return err
		}
		seen += len(table.Rows)
		table.Rows = slices.DeleteFunc(table.Rows, func(r userclient.Row) bool { return !strings.Contains(r.Name, data.Name) })
		data.addRows(table.Columns, table.Rows)
		if query.Continue = table.Continue; query.Continue == "" {
			break
		}
		if seen >= maxWholeRows {
			data.Note = "Only the first " + format.Count(seen) +
				" objects are sorted and filtered. Filter by namespace or labels to sort all."
			break
		}
	}
	req.addStates(data, all)
	whole := web.NewList(req.Request, data.Rows, objectRowSpec(data.Default))
	data.ListView, data.Rows = whole.ListView, whole.Rows
	data.PreviousURL, data.NextURL = data.ListView.PreviousURL(), data.ListView.NextURL()
	return nil
}
