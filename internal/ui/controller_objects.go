package ui

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// pageSize is how many objects are on a page.
const pageSize = 100

// objectList is a page of the objects of a controller.
type objectList struct {
	inspect.Page
	Query inspect.Query
	// at is the path of the page that it is on.
	at string
	// Missing is the right that the visitor lacks to see any; "" if they may.
	Missing string
	// Partial says that some kinds are left out, which the visitor may not list.
	Partial bool
	// MayReconcile says that the visitor may write to the objects.
	MayReconcile bool
	// Kinds are those that there are to choose from.
	Kinds []inspect.Kind
}

// objects are those of a controller that the URL asks for, as far as the visitor may
// list them. Of one whose kinds are not known, they may list none.
func (v *visit) objects(source inspect.Source, c *inspect.Controller) (*objectList, error) {
	list := &objectList{Query: v.objectQuery(), at: controllerURL(c.Process, c.Name)}
	for _, kind := range c.Kinds {
		if v.may("list", kind, list.Query.Namespace, "") {
			list.Kinds = append(list.Kinds, kind)
		}
	}
	list.Partial = len(list.Kinds) < len(c.Kinds)
	switch {
	case c.Everywhere:
		return list, v.reviewed(list, source, c)
	case len(c.Kinds) == 0:
		return list, nil
	case len(list.Kinds) == 0:
		list.Missing = missingRight("list", c.Kinds[0], list.Query.Namespace)
		return list, nil
	case list.Partial && !list.has(inspect.Kind{Group: list.Query.Group, Kind: list.Query.Kind}):
		list.Query.Group, list.Query.Kind = list.Kinds[0].Group, list.Kinds[0].Kind
	}
	list.Query.Reads = inspect.Readable(c.Children, list.Query.Namespace, v.reads)
	if err := v.askObjects(list, source, c); err != nil {
		return list, err
	}
	// A process of another version does not know groups.
	list.Objects = slices.DeleteFunc(list.Objects, func(c inspect.Care) bool { return !list.has(c.Kind) })
	list.Objects = v.discreetly(list.Objects)
	list.MayReconcile = slices.ContainsFunc(list.Kinds, func(k inspect.Kind) bool { return v.may("patch", k, list.Query.Namespace, "") })
	return list, nil
}

func (v *visit) askObjects(list *objectList, source inspect.Source, c *inspect.Controller) (err error) {
	list.Page, err = inspect.AskOne(v.context(), v.patience, source, func(ctx context.Context, s inspect.Source) (inspect.Page, error) {
		return s.Objects(ctx, c.Name, list.Query)
	})
	return err
}

// reviewed are the objects of a controller that does nothing but review, as far as the
// visitor may read them. Which kinds these are, its rules say, and not its name.
func (v *visit) reviewed(list *objectList, source inspect.Source, c *inspect.Controller) error {
	if err := v.askObjects(list, source, c); err != nil {
		return err
	}
	list.Reviews, list.Kinds = true, c.Kinds
	seen := allowed(list.Objects, func(c *inspect.Care) bool { return v.reads(c.Kind, c.Namespace) })
	list.Partial = len(seen) < len(list.Objects)
	list.Objects = v.discreetly(seen)
	return nil
}

// has says whether a kind is among those to choose from.
func (l *objectList) has(kind inspect.Kind) bool {
	return slices.ContainsFunc(l.Kinds, func(k inspect.Kind) bool { return sameKind(k, kind) })
}

// kindChoice is one kind to choose, and by what value of the URL.
type kindChoice struct {
	Name, Value string
	Current     bool
}

// KindChoices are the kinds, with their groups where two have one name.
func (l *objectList) KindChoices() []kindChoice {
	var choices []kindChoice
	for _, kind := range l.Kinds {
		choice := kindChoice{Name: kind.Kind, Value: kindValue(kind.Group, kind.Kind)}
		choice.Current = sameKind(kind, inspect.Kind{Group: l.Query.Group, Kind: l.Query.Kind})
		if slices.ContainsFunc(l.Kinds, func(k inspect.Kind) bool { return k.Kind == kind.Kind && k.Group != kind.Group }) {
			choice.Name = choice.Value
		}
		choices = append(choices, choice)
	}
	return choices
}

// kindValue is how URLs say a kind, such as "Pod" or "Deployment.apps".
func kindValue(group, kind string) string {
	if group == "" || kind == "" {
		return kind
	}
	return kind + "." + group
}

// missingRight names a right as one would ask for it.
func missingRight(verb string, kind inspect.Kind, namespace string) string {
	switch {
	case !kind.Namespaced:
		return verb + " " + kind.Resource()
	case namespace == "":
		return verb + " " + kind.Resource() + " in all namespaces"
	default:
		return verb + " " + kind.Resource() + " in the namespace " + namespace
	}
}

// objectQuery is what the URL asks for.
func (v *visit) objectQuery() inspect.Query {
	q := inspect.Query{
		Text: strings.ToLower(v.query("q")), Namespace: v.query("ns"),
		Sort: v.query("sort"), Reverse: v.query("reverse") != "", Limit: pageSize,
	}
	q.Kind, q.Group, _ = strings.Cut(v.query("kind"), ".")
	for _, state := range inspect.States() {
		if strings.EqualFold(v.query("state"), string(state)) {
			q.State = state
		}
	}
	if !slices.Contains([]string{"name", "created", "run", "children"}, q.Sort) {
		q.Sort = ""
	}
	if at, err := strconv.Atoi(v.query("offset")); err == nil && at > 0 {
		q.Offset = at - at%pageSize
	}
	return q
}

// with is the URL of the list as it would be for another query.
func (l *objectList) with(q inspect.Query) string {
	values := url.Values{}
	set := func(name, value string) {
		if value != "" {
			values.Set(name, value)
		}
	}
	set("q", q.Text)
	set("ns", q.Namespace)
	set("kind", kindValue(q.Group, q.Kind))
	set("state", string(q.State))
	set("sort", q.Sort)
	if q.Reverse {
		set("reverse", "yes")
	}
	if q.Offset > 0 {
		set("offset", strconv.Itoa(q.Offset))
	}
	if len(values) == 0 {
		return l.at
	}
	return l.at + "?" + values.Encode()
}

// At is where the list is, without what it is narrowed by.
func (l *objectList) At() string { return l.at }

// Here is the URL of the list as it is.
func (l *objectList) Here() string { return l.with(l.Query) }

// chip is one choice of several.
type chip struct {
	Name, URL string
	Count     int
	Current   bool
}

// Chips are the states to choose from: those that there are, and all.
func (l *objectList) Chips() []chip {
	choose := func(name string, state inspect.State, count int) chip {
		q := l.Query
		q.State, q.Offset = state, 0
		return chip{Name: name, URL: l.with(q), Count: count, Current: l.Query.State == state}
	}
	chips := []chip{choose("All", "", l.Total)}
	for _, state := range inspect.States() {
		if n := l.States[state]; n > 0 || l.Query.State == state {
			chips = append(chips, choose(string(state), state, n))
		}
	}
	return chips
}

// column is a head of the table, by which it can be sorted.
type column struct {
	Name, URL string
	// Sorted is the value of aria-sort: "ascending", "descending", or "".
	Sorted string
	Class  string
}

// Columns are the heads of the table.
func (l *objectList) Columns() []column {
	heads := []struct{ name, sort, class string }{
		{"Object", "name", ""}, {"State", "", ""}, {"Children", "children", "number"}, {"Last run", "run", ""}, {"Age", "created", ""},
	}
	var columns []column
	for _, head := range heads {
		q := l.Query
		q.Sort, q.Reverse, q.Offset = head.sort, false, 0
		c := column{Name: head.name, Class: head.class}
		if l.Query.Sort == head.sort {
			q.Reverse = !l.Query.Reverse
			c.Sorted = map[bool]string{false: "ascending", true: "descending"}[l.Query.Reverse]
		}
		c.URL = l.with(q)
		columns = append(columns, c)
	}
	return columns
}

// Range says which part of the list this is, such as "1–100 of 10 000".
func (l *objectList) Range() string {
	from := min(l.Query.Offset+1, l.Matching)
	return count(from) + "–" + count(l.Query.Offset+len(l.Objects)) + " of " + count(l.Matching)
}

// Paged says that there is more than one page.
func (l *objectList) Paged() bool { return l.Matching > pageSize || l.Query.Offset > 0 }

// Before and After are the URLs of the pages beside this one; "" for none.
func (l *objectList) Before() string {
	if l.Query.Offset == 0 {
		return ""
	}
	q := l.Query
	q.Offset = max(0, q.Offset-pageSize)
	return l.with(q)
}

// After is the URL of the next page; "" for none.
func (l *objectList) After() string {
	q := l.Query
	q.Offset += pageSize
	if q.Offset >= l.Matching {
		return ""
	}
	return l.with(q)
}

// Narrowed says that there may be more objects than those that are shown.
func (l *objectList) Narrowed() bool {
	q := l.Query
	return cmp.Or(q.Text, q.Namespace, q.Kind, string(q.State)) != ""
}
