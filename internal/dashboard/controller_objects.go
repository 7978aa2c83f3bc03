package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pageSize is the number of objects on a page.
const pageSize = 100

// objectList is one page of the objects of a controller.
type objectList struct {
	model.Page
	Query model.Query
	// at is the URL of the page.
	at url.URL
	// MissingPermission says what the user needs to see any objects; "" if nothing is missing.
	MissingPermission string
	// Partial reports whether kinds are hidden because the user may not list them.
	Partial bool
	// CanReconcile reports whether the user may patch the objects.
	CanReconcile bool
	// Kinds are the kinds to filter by.
	Kinds []object.Kind
}

// listObjects returns the objects that the URL selects and the user may list. If the kinds of a
// controller are unknown, the user may list none.
func (req *request) listObjects(source model.Source, c *model.Controller) (*objectList, error) {
	list := &objectList{Query: req.objectQuery(), at: *req.r.URL}
	for _, kind := range c.Kinds {
		if req.can("list", kind, list.Query.Namespace, "") {
			list.Kinds = append(list.Kinds, kind)
		}
	}
	list.Partial = len(list.Kinds) < len(c.Kinds)
	switch {
	case len(c.Kinds) == 0:
		return list, nil
	case len(list.Kinds) == 0:
		list.MissingPermission = capitalize(missing("list", c.Kinds[0], list.Query.Namespace))
		return list, nil
	case list.Partial && !list.hasKind(object.Kind{Group: list.Query.Group, Kind: list.Query.Kind}):
		list.Query.Group, list.Query.Kind = list.Kinds[0].Group, list.Kinds[0].Kind
	}
	list.Query.ReadableKinds = model.Readable(c.Children, list.Query.Namespace, req.canRead)
	var err error
	if list.Page, err = req.fetchObjects(source, c.Name, list.Query); err != nil {
		return list, err
	}
	// Processes of older versions ignore the group.
	list.Objects = slices.DeleteFunc(list.Objects, func(c model.ObjectState) bool { return !list.hasKind(c.Kind) })
	list.Objects = req.redactStates(list.Objects)
	list.CanReconcile = slices.ContainsFunc(list.Kinds, func(k object.Kind) bool { return req.can("patch", k, list.Query.Namespace, "") })
	return list, nil
}

func (req *request) fetchObjects(source model.Source, controller string, query model.Query) (model.Page, error) {
	return model.QueryOne(req.context(), req.timeouts, source, func(ctx context.Context, s model.Source) (model.Page, error) {
		return s.Objects(ctx, controller, query)
	})
}

// hasKind reports whether the list can be filtered by a kind.
func (l *objectList) hasKind(kind object.Kind) bool {
	return slices.ContainsFunc(l.Kinds, func(k object.Kind) bool { return k.GroupKind() == kind.GroupKind() })
}

// kindOption is a kind to filter by.
type kindOption struct {
	Name, Value string
	Current     bool
}

// KindOptions returns the kinds to filter by.
func (l *objectList) KindOptions() []kindOption {
	return kindOptions(l.Kinds, l.Query.Group, l.Query.Kind)
}

// kindOptions returns kinds to filter by, with their groups where names are ambiguous.
func kindOptions(kinds []object.Kind, group, kind string) []kindOption {
	var choices []kindOption
	for _, each := range kinds {
		choice := kindOption{Name: each.Kind, Value: kindValue(each.Group, each.Kind), Current: each.Kind == kind && each.Group == group}
		if slices.ContainsFunc(kinds, func(k object.Kind) bool { return k.Kind == each.Kind && k.Group != each.Group }) {
			choice.Name = choice.Value
		}
		choices = append(choices, choice)
	}
	return choices
}

// kindValue returns a kind as a URL parameter, such as "Pod" or "Deployment.apps".
func kindValue(group, kind string) string {
	if group == "" || kind == "" {
		return kind
	}
	return kind + "." + group
}

// missing says that the user does not have a permission: for all objects of a kind in a namespace,
// or in all if that is "".
func missing(verb string, kind object.Kind, namespace string) string {
	p := userclient.Permission{Verb: verb, Resource: cmp.Or(kind.Plural, strings.ToLower(kind.Kind)), Group: kind.Group}
	if kind.Namespaced {
		p.Namespace = namespace
	}
	return p.Missing() + "."
}

// forbidden is missing as a sentence of its own.
func forbidden(verb string, kind object.Kind, namespace string) string {
	return "Forbidden: " + missing(verb, kind, namespace)
}

// objectQuery returns the query in the URL.
func (req *request) objectQuery() model.Query {
	q := model.Query{
		Text: strings.ToLower(req.query("q")), Namespace: req.query("ns"),
		Sort: req.query("sort"), Reverse: req.query("reverse") != "", Limit: pageSize,
	}
	q.Kind, q.Group, _ = strings.Cut(req.query("kind"), ".")
	for _, state := range model.States() {
		if strings.EqualFold(req.query("state"), string(state)) {
			q.State = state
		}
	}
	if !slices.Contains([]string{"name", "created", "run", "children"}, q.Sort) {
		q.Sort = ""
	}
	q.Offset = req.offset()
	return q
}

// offset returns the first item of the page in the URL.
func (req *request) offset() int {
	if at, err := strconv.Atoi(req.query("offset")); err == nil && at > 0 {
		return at - at%pageSize
	}
	return 0
}

// Path returns the path of the list without filters.
func (l *objectList) Path() string { return l.at.EscapedPath() }

// stateFilter is a link that filters by state.
type stateFilter struct {
	Name, URL string
	Count     int
	Current   bool
}

// StateFilters returns the filters for all states that occur, and one for all objects.
func (l *objectList) StateFilters() []stateFilter {
	choose := func(name string, state model.State, count int) stateFilter {
		return stateFilter{Name: name, URL: urlWith(&l.at, "state", string(state), "offset", ""), Count: count, Current: l.Query.State == state}
	}
	chips := []stateFilter{choose("All", "", l.Total)}
	for _, state := range model.States() {
		if n := l.States[state]; n > 0 || l.Query.State == state {
			chips = append(chips, choose(string(state), state, n))
		}
	}
	return chips
}

// column is a sortable column header.
type column struct {
	Name, URL string
	// Sorted is the value of aria-sort: "ascending", "descending", or "".
	Sorted string
	Class  string
	sort   string
}

// Columns returns the column headers.
func (l *objectList) Columns() []column {
	columns := []column{
		{Name: "Object", sort: "name"}, {Name: "State"}, {Name: "Children", sort: "children", Class: "number"},
		{Name: "Last run", sort: "run"}, {Name: "Age", sort: "created"},
	}
	for i := range columns {
		c, reverse := &columns[i], ""
		if l.Query.Sort == c.sort {
			c.Sorted = "descending"
			if !l.Query.Reverse {
				c.Sorted, reverse = "ascending", "yes"
			}
		}
		c.URL = urlWith(&l.at, "sort", c.sort, "reverse", reverse, "offset", "")
	}
	return columns
}

// Pager returns the position of the page.
func (l *objectList) Pager() pager {
	return pager{at: l.at, offset: l.Query.Offset, shown: len(l.Objects), total: l.Matching}
}
