package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func containsText(html, text string) bool { return strings.Contains(html, text) }

type testRow struct {
	name, state string
	n           int
}

func testSpec() *listSpec[testRow] {
	return &listSpec[testRow]{
		States: []string{"Failing", "Ready"}, Default: "name", State: func(r *testRow) string { return r.state },
		Texts: func(r *testRow) []string { return []string{r.name} },
		Columns: []listColumn[testRow]{
			{Name: "Name", Sort: "name", Compare: compareText(func(r *testRow) string { return r.name })},
			{Name: "Size", Sort: "size", Compare: compareMost(func(r *testRow) int { return r.n })},
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
		l := newList(newTestRequest(t, "/?"+query), slices.Clone(rows), testSpec())
		first := ""
		if len(l.Rows) > 0 {
			first = l.Rows[0].name
		}
		if first != want.first || l.Matching != want.matching || l.Offset != want.offset || len(l.Ignored) != len(want.ignored) || l.Shown > pageSize {
			t.Errorf("%s: %s first, %d match, offset %d, ignored %q", query, first, l.Matching, l.Offset, l.Ignored)
		}
	}
}

func TestListColumns(t *testing.T) {
	l := newList(newTestRequest(t, "/x?sort=size&offset=100&q=r&keep=1"), []testRow{{"r", "Ready", 1}}, testSpec())
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

// All lists keep what the URL says, also where it makes no sense.
func TestListsInURLs(t *testing.T) {
	source := newHostileSource()
	s := newServer(t, source)
	for _, path := range []string{"/", "/resources", teamsPage} {
		for _, query := range []string{"?sort=name&reverse=yes", "?state=Ready", "?state=" + strings.Repeat("x", 5000), "?sort=%3Cscript%3E", "?offset=1e9&sort=name&state=Failing&q=%25"} {
			w := get(t, s, path+query)
			if found := findInlineCode(w.Body.String()); found != "" || w.Code >= 500 && path != "/resources" {
				t.Errorf("%s%s: %d, %s", path, query[:min(len(query), 40)], w.Code, found)
			}
		}
	}
	body := get(t, s, "/?sort=objects&reverse=yes&state=nonsense").Body.String()
	wantTexts(t, body, `aria-sort="descending"><a href="/?sort=objects&amp;state=nonsense"`, "Ignored in the address", "state=nonsense")
}

// A filter that fits nothing says of how many.
func TestNoMatches(t *testing.T) {
	run := newRun(7, "x")
	run.Steps = []inspect.Step{{Call: &inspect.Call{Name: "w", Review: &inspect.Review{Operation: "create", User: "ann"}}}}
	c := teamsController()
	c.Reviews, c.AllReplicas = true, true
	s := newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}, runs: []inspect.Run{run}})
	wantTexts(t, get(t, s, teamsPage+"?user=absent").Body.String(), "None of 1 review matches the filter.")
	wantTexts(t, get(t, s, "/?q=absent").Body.String(), "None of 1 controller matches the filter.")
}

// The states of one object by several controllers have the most severe one first.
func TestWorstState(t *testing.T) {
	for _, c := range []struct {
		states []inspect.State
		want   string
	}{{nil, ""}, {[]inspect.State{inspect.StateSynced, inspect.StateFailing}, "Failing"}, {[]inspect.State{inspect.StateSynced, processes.Suspended}, "Synced"}} {
		row := objectRow{}
		for _, state := range c.states {
			row.States = append(row.States, inspect.ObjectState{State: state})
		}
		if got := row.worst(); got != c.want {
			t.Errorf("%v: %q", c.states, got)
		}
	}
	if cmp.Compare(stateRank("Failing"), stateRank("")) >= 0 {
		t.Error("an object without a controller is before a failing one")
	}
}
