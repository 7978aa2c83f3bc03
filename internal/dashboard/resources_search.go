package dashboard

import (
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Limits of a search by name: how many objects are searched, in pages of which size, and how
// many are fetched by name.
const (
	maxSearchedRows = 10_000
	searchPageSize  = 500
	maxLookups      = 20
)

// search lists objects until a page of matches is full. If the list is long and a controller
// caches all of it, the controller finds the names.
func (req *request) search(data *kindPage, query userclient.TableQuery, all []processInfo) error {
	query.Limit, query.Continue = searchPageSize, ""
	seen := 0
	for {
		table, err := req.api.Table(req.context(), data.Kind, query)
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
		p.Note = "Only the first " + formatCount(seen) + " objects were searched. Filter by namespace or labels to search all."
	default:
		return false
	}
	return true
}

// findByName finds names in the cache of a controller that has as many objects as the user
// listed, which are then the same. It returns false if there is no such controller, or too many
// matches.
func (req *request) findByName(data *kindPage, all []processInfo, there int64) (found []inspect.ObjectState, known bool) {
	for _, t := range all {
		for _, c := range managingControllers([]processInfo{t}, data.Kind) {
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
	group, ctx := errgroup.WithContext(req.context())
	group.SetLimit(6)
	for i := range found {
		group.Go(func() (err error) {
			tables[i], err = req.api.Table(ctx, data.Kind, userclient.TableQuery{
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
