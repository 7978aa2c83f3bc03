package ui

import (
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How many objects are looked through for a name, and how many at a time; and how many
// are asked for by their names, where those are known.
const (
	searchRows  = 10_000
	searchAhead = 500
	maxNamed    = 20
)

// search goes through the list until a page of names that fit is full. Where it is long,
// but a controller has all of it in its care, that knows the names.
func (v *visit) search(data *kindPage, query asuser.TableQuery, all []told) error {
	query.Limit, query.Continue = searchAhead, ""
	seen := 0
	for {
		table, err := v.api.Table(v.context(), data.Kind, query)
		if err != nil {
			return err
		}
		if there := int64(len(table.Rows)) + table.Remaining; seen == 0 && table.Continue != "" && query.Labels == "" {
			if names, known := v.named(data, all, there); known {
				return v.addNamed(data, table.Columns, names)
			}
		}
		seen += len(table.Rows)
		table.Rows = slices.DeleteFunc(table.Rows, func(r asuser.Row) bool { return !strings.Contains(r.Name, data.Name) })
		data.add(table.Columns, table.Rows)
		query.Continue = table.Continue
		if data.full(seen, query.Continue == "") {
			return nil
		}
	}
}

// full says that no more is looked through, and notes why, unless all has been.
func (p *kindPage) full(seen int, all bool) bool {
	switch {
	case len(p.Rows) > pageRows:
		p.Rows = p.Rows[:pageRows]
		p.Note = "There are more with such a name. Type more of it."
	case all:
	case seen >= searchRows:
		p.Note = "Only the first " + count(seen) + " were looked through. Choose a namespace or labels to narrow it."
	default:
		return false
	}
	return true
}

// named are the objects with names that fit, by a controller that cares for as many as
// the visitor has just listed: that is all of them. It is not known if there is none, or
// if there are too many to ask for each.
func (v *visit) named(data *kindPage, all []told, there int64) (found []inspect.Care, known bool) {
	for _, t := range all {
		for _, c := range caring([]told{t}, data.Kind) {
			has, err := t.Source.Objects(v.context(), c.Name, data.query(1))
			if err != nil || int64(has.Matching) != there {
				continue
			}
			query := data.query(manyCares)
			query.Text = data.Name
			fits, err := t.Source.Objects(v.context(), c.Name, query)
			if err != nil || fits.Matching > len(fits.Objects) {
				continue
			}
			// What fits may do so by its namespace, or its error.
			fit := slices.DeleteFunc(fits.Objects, func(c inspect.Care) bool { return !strings.Contains(c.Name, data.Name) })
			return fit, len(fit) <= maxNamed
		}
	}
	return nil, false
}

// addNamed asks for objects by their names.
func (v *visit) addNamed(data *kindPage, columns []asuser.Column, found []inspect.Care) error {
	tables := make([]asuser.Table, len(found))
	group, ctx := errgroup.WithContext(v.context())
	group.SetLimit(6)
	for i := range found {
		group.Go(func() (err error) {
			tables[i], err = v.api.Table(ctx, data.Kind, asuser.TableQuery{
				Namespace: found[i].Namespace, Fields: "metadata.name=" + found[i].Name, Limit: 1,
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	data.add(columns, nil)
	for _, table := range tables {
		data.add(table.Columns, table.Rows)
	}
	return nil
}
