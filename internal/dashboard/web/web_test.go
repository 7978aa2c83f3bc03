package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

type testRow struct {
	name, state string
	n           int
}

func testSpec() *ListSpec[testRow] {
	return &ListSpec[testRow]{
		States: []string{"Failing", "Ready"}, Default: "name", State: func(r *testRow) string { return r.state },
		Texts: func(r *testRow) []string { return []string{r.name} },
		Columns: []ListColumn[testRow]{
			{Name: "Name", Sort: "name", Compare: CompareText(func(r *testRow) string { return r.name })},
			{Name: "Size", Sort: "size", Compare: CompareMost(func(r *testRow) int { return r.n })},
			{Name: "Plain"},
		},
	}
}

func TestLists(t *testing.T) {
	var rows []testRow
	for i := range 250 {
		rows = append(rows, testRow{fmt.Sprintf("row-%03d", i), []string{"Ready", "Failing"}[i%2], i % 7})
	}
	for query, want := range map[string]struct {
		first    string
		matching int
		offset   int
		ignored  []string
	}{
		"":                               {"row-000", 250, 0, nil},
		"reverse=yes":                    {"row-249", 250, 0, nil},
		"sort=size":                      {"row-006", 250, 0, nil},
		"sort=size&reverse=1":            {"row-000", 250, 0, nil},
		"state=failing":                  {"row-001", 125, 0, nil},
		"state=FAILING&offset=100":       {"row-201", 125, 100, nil},
		"offset=99999":                   {"row-200", 250, 200, nil},
		"offset=-5":                      {"row-000", 250, 0, nil},
		"offset=99999999999999999999999": {"row-000", 250, 0, nil},
		"q=ROW-01":                       {"row-010", 10, 0, nil},
		"q=none":                         {"", 0, 0, nil},
		"state=%00&sort=%27--":           {"row-000", 250, 0, []string{"state", "sort"}},
		"sort=":                          {"row-000", 250, 0, nil},
		"sort=Plain":                     {"row-000", 250, 0, []string{"sort=Plain"}},
	} {
		l := NewList(requestTo("/?"+query), slices.Clone(rows), testSpec())
		first := ""
		if len(l.Rows) > 0 {
			first = l.Rows[0].name
		}
		if first != want.first || l.Matching != want.matching || l.Offset != want.offset || len(l.Ignored) != len(want.ignored) || l.Shown > PageSize {
			t.Errorf("%s: %s first, %d match, offset %d, ignored %q", query, first, l.Matching, l.Offset, l.Ignored)
		}
	}
}

func TestListColumns(t *testing.T) {
	l := NewList(requestTo("/x?sort=size&offset=100&q=r&keep=1"), []testRow{{"r", "Ready", 1}}, testSpec())
	columns := l.Columns()
	if c := columns[1]; c.Sorted != "ascending" || c.URL != "/x?keep=1&q=r&reverse=yes&sort=size" {
		t.Errorf("the order of the page: %+v", c)
	}
	if c := columns[0]; c.Sorted != "" || c.URL != "/x?keep=1&q=r&sort=name" {
		t.Errorf("another order: %+v", c)
	}
	if columns[2].URL != "" {
		t.Errorf("%+v sorts", columns[2])
	}
	chips := l.Filters()
	if len(chips) != 2 || !chips[0].Current || chips[1].URL != "/x?keep=1&q=r&sort=size&state=Ready" {
		t.Errorf("filters %+v", chips)
	}
}

func requestTo(path string) *Request {
	return &Request{R: httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)}
}

func TestSignInRedirectIsLocal(t *testing.T) {
	for path, want := range map[string]string{
		"/controllers/a/b?q=c": "/controllers/a/b?q=c", "": "/", "https://evil.test": "/", "//evil.test": "/", `/\evil.test`: "/", "/a\r\nb": "/",
	} {
		if got := localPath(path); got != want {
			t.Errorf("local(%q) is %q", path, got)
		}
	}
}

func TestLimiter(t *testing.T) {
	turns := Limiter{PerUser: 2, Total: 3}
	for i, want := range []bool{true, true, false} {
		if turns.Acquire("ann") != want {
			t.Errorf("turn %d of ann", i)
		}
	}
	if !turns.Acquire("bob") || turns.Acquire("cat") {
		t.Error("all together have another number")
	}
	turns.Release("ann")
	if !turns.Acquire("cat") || len(turns.byName) != 3 {
		t.Error("one that has ended still counts")
	}
}
