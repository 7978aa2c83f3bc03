package web

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
)

// PageSize is the number of rows on a page.
const PageSize = 100

// ListColumn is a column of a list.
type ListColumn[T any] struct {
	Name, Class string
	// Sort names the order in the URL; "" for none. Compare is that order.
	Sort    string
	Compare func(a, b *T) int
}

// ListSpec says how a list is filtered and sorted. All lists of the dashboard have one.
type ListSpec[T any] struct {
	// Target is the ID of the element that links replace; "" for the whole page.
	Target string
	// One and More are the nouns for a row and for several.
	One, More string
	// Label names the filters for screen readers, Parameter is theirs in the URL; "state" if empty.
	Label, Parameter string
	// States are the states to filter by, in order, and State is that of a row; "" for one that no
	// filter but "All" selects.
	States []string
	State  func(*T) string
	// Columns are the columns, and Default is the order without one in the URL. Rows that are equal keep their places.
	Columns []ListColumn[T]
	Default string
	// Texts are what the text filter searches; nil for a list without one.
	Texts func(*T) []string
}

// List is a page of a list that is in memory.
type List[T any] struct {
	ListView
	Rows []T
}

// NewList filters and sorts rows as the URL says, and takes the page.
func NewList[T any](req *Request, rows []T, spec *ListSpec[T]) *List[T] {
	l := &List[T]{ListView: req.NewListView(spec.View())}
	l.Total = len(rows)
	for i := range rows {
		if !spec.containsText(&rows[i], l.Text) {
			continue
		}
		state := spec.State(&rows[i])
		l.Counts[state]++
		l.All++
		if l.State == "" || l.State == state {
			l.Rows = append(l.Rows, rows[i])
		}
	}
	l.Matching = len(l.Rows)
	spec.sort(l.Rows, cmp.Or(l.Sort, spec.Default), l.Reverse)
	l.Clamp()
	l.Rows = l.Rows[l.Offset:min(l.Offset+PageSize, l.Matching)]
	l.Shown = len(l.Rows)
	return l
}

func (s *ListSpec[T]) containsText(row *T, text string) bool {
	return text == "" || s.Texts == nil || slices.ContainsFunc(s.Texts(row),
		func(each string) bool { return strings.Contains(strings.ToLower(each), text) })
}

func (s *ListSpec[T]) sort(rows []T, by string, reverse bool) {
	at := slices.IndexFunc(s.Columns, func(c ListColumn[T]) bool { return c.Sort == by })
	if at < 0 || by == "" {
		return
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if reverse {
			return s.Columns[at].Compare(&b, &a)
		}
		return s.Columns[at].Compare(&a, &b)
	})
}

// View returns the part of the spec that does not depend on the rows.
func (s *ListSpec[T]) View() ListView {
	v := ListView{Target: s.Target, One: s.One, More: s.More, Label: s.Label, Default: s.Default, parameter: cmp.Or(s.Parameter, "state"),
		states: s.States}
	for _, c := range s.Columns {
		v.columns = append(v.columns, Column{Name: c.Name, Class: c.Class, Sort: c.Sort})
	}
	return v
}

// ListView is a list as its filters, column headers and pager show it. The rows may come from
// another process, which filters and sorts them.
type ListView struct {
	Target, One, More, Label, Default string
	// State, Text, Sort, Reverse and Offset are what the URL selects.
	State, Text, Sort string
	Reverse           bool
	Offset            int
	// Total is the number of rows, All of those that the text selects, Matching of those that all filters select, and
	// Shown of those on the page.
	Total, All, Matching, Shown int
	// Ignored are the values in the URL that make no sense.
	Ignored []string

	at        url.URL
	parameter string
	states    []string
	columns   []Column
	Counts    map[string]int
}

// NewListView reads what the URL selects.
func (req *Request) NewListView(v ListView) ListView {
	v.at, v.Counts = *req.R.URL, map[string]int{}
	if at, err := strconv.Atoi(req.Query("offset")); err == nil && at > 0 {
		v.Offset = at - at%PageSize
	}
	v.Text, v.Reverse = strings.ToLower(req.Query("q")), req.Query("reverse") != ""
	if wanted := req.Query(v.parameter); wanted != "" {
		at := slices.IndexFunc(v.states, func(state string) bool { return strings.EqualFold(state, wanted) })
		if at < 0 {
			v.ignore(v.parameter, wanted)
		} else {
			v.State = v.states[at]
		}
	}
	if wanted := req.Query("sort"); wanted != "" {
		if !slices.ContainsFunc(v.columns, func(c Column) bool { return c.Sort == wanted }) {
			v.ignore("sort", wanted)
			return v
		}
		v.Sort = wanted
	}
	return v
}

func (v *ListView) ignore(parameter, value string) {
	v.Ignored = append(v.Ignored, parameter+"="+format.Shorten(value))
}

// Clamp moves an offset beyond the end to the last page.
func (v *ListView) Clamp() {
	if v.Offset >= v.Matching {
		last := max(v.Matching-1, 0)
		v.Offset = last - last%PageSize
	}
}

// Path returns the path of the list without filters.
func (v *ListView) Path() string { return v.at.EscapedPath() }

// Filtered reports whether a filter hides rows.
func (v *ListView) Filtered() bool { return v.Matching < v.Total }

type hiddenField struct{ Name, Value string }

// HiddenFields returns the state and the order, which the form of the other filters keeps.
func (v *ListView) HiddenFields() []hiddenField {
	all := []hiddenField{{v.parameter, v.State}, {"sort", v.Sort}}
	if v.Reverse {
		all = append(all, hiddenField{"reverse", "yes"})
	}
	return slices.DeleteFunc(all, func(f hiddenField) bool { return f.Value == "" })
}

// StateFilter is a link that filters by state.
type StateFilter struct {
	Name, URL string
	Count     int
	Current   bool
}

// Filters returns the filters for all states that occur, and one for all rows.
func (v *ListView) Filters() []StateFilter {
	choose := func(name, state string, count int) StateFilter {
		return StateFilter{Name: name, URL: URLWith(&v.at, v.parameter, state, "offset", ""), Count: count, Current: v.State == state}
	}
	chips := []StateFilter{choose("All", "", v.All)}
	for _, state := range v.states {
		if n := v.Counts[state]; n > 0 || v.State == state {
			chips = append(chips, choose(format.Capitalize(state), state, n))
		}
	}
	return chips
}

// Column is a column header. One without a URL does not sort.
type Column struct {
	Name, URL, Title string
	// Sorted is the value of aria-sort: "ascending", "descending", or "".
	Sorted string
	Class  string
	Sort   string
}

// Columns returns the column headers. A second click reverses the order.
func (v *ListView) Columns() []Column {
	columns := slices.Clone(v.columns)
	by := cmp.Or(v.Sort, v.Default)
	for i := range columns {
		c, reverse := &columns[i], ""
		if c.Sort == "" {
			continue
		}
		if by == c.Sort {
			c.Sorted = "descending"
			if !v.Reverse {
				c.Sorted, reverse = "ascending", "yes"
			}
		}
		c.URL = URLWith(&v.at, "sort", c.Sort, "reverse", reverse, "offset", "")
	}
	return columns
}

// CompareText orders rows by a text.
func CompareText[T any](of func(*T) string) func(a, b *T) int {
	return func(a, b *T) int { return strings.Compare(of(a), of(b)) }
}

// CompareMost orders rows by a number, the largest first.
func CompareMost[T any, N cmp.Ordered](of func(*T) N) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(of(b), of(a)) }
}

// CompareLatest orders rows by a time, the latest first.
func CompareLatest[T any](of func(*T) time.Time) func(a, b *T) int {
	return func(a, b *T) int { return of(b).Compare(of(a)) }
}

// Range returns which part of the list the page shows, such as "1–100 of 10,000".
func (v *ListView) Range() string {
	from := min(v.Offset+1, v.Matching)
	return format.Count(from) + "–" + format.Count(v.Offset+v.Shown) + " of " + format.Count(v.Matching)
}

// HasPages reports whether there is more than one page.
func (v *ListView) HasPages() bool { return v.Matching > PageSize || v.Offset > 0 }

// PreviousURL returns the URL of the previous page; "" for none.
func (v *ListView) PreviousURL() string { return v.pageURL(v.Offset - PageSize) }

// NextURL returns the URL of the next page; "" for none.
func (v *ListView) NextURL() string { return v.pageURL(v.Offset + PageSize) }

func (v *ListView) pageURL(offset int) string {
	if offset < 0 || offset >= v.Matching {
		return ""
	}
	return URLWith(&v.at, "offset", strconv.Itoa(offset))
}
