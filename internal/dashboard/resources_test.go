package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// newTeamsAPI serves 700 teams as tables, and single ones by name.
func newTeamsAPI(t *testing.T, lists *int) *userclient.Cluster {
	t.Helper()
	row := func(name string) string {
		return fmt.Sprintf(`{"cells":[%[1]q],"object":{"metadata":{"name":%[1]q,"namespace":"shop"}}}`, name)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if responses := discoveryResponses(); responses[r.URL.Path] != "" {
			_, _ = fmt.Fprint(w, strings.ReplaceAll(responses[r.URL.Path], "webs", "teams"))
			return
		}
		metadata, rows := `{}`, []string{}
		switch name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); {
		case name != "":
			rows = append(rows, row(name))
		case r.URL.Query().Get("continue") == "":
			*lists++
			metadata = `{"continue":"x","remainingItemCount":200}`
			for i := range 500 {
				rows = append(rows, row(fmt.Sprintf("t%03d", i)))
			}
		default:
			for i := range 200 {
				rows = append(rows, row(fmt.Sprintf("t%03d", 500+i)))
			}
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%s,"columnDefinitions":[{"name":"Name","type":"string"}],"rows":[%s]}`, metadata, strings.Join(rows, ","))
	}))
	t.Cleanup(server.Close)
	c, err := userclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A process that caches as many objects as the API server has sorts them; otherwise they are read.
func TestSortedListOfKind(t *testing.T) {
	var lists int
	c := teamsController()
	state := inspect.ObjectState{Ref: object.Ref{Kind: c.Kinds[0], Namespace: "shop", Name: "t345"}, State: inspect.StateFailing}
	for total, want := range map[int]struct {
		row    string
		counts string
	}{
		700: {"t345", "Failing <b>1</b>"},
		699: {"t000", "All <b>700</b>"},
	} {
		source := &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}
		source.page = inspect.Page{Total: total, Matching: total, States: map[inspect.State]int{inspect.StateFailing: 1}, Objects: []inspect.ObjectState{state}}
		req := newTestRequest(t, "/?sort=created")
		var err error
		if req.api, err = newTeamsAPI(t, &lists).As(userclient.User{OwnCredentials: true}); err != nil {
			t.Fatal(err)
		}
		data := &kindPage{Kind: c.Kinds[0], Controllers: source.controllers, listView: req.newListView(kindListView(c.Kinds[0], ""))}
		if err := req.listRows(data, []processInfo{{Source: source, Controllers: source.controllers}}); err != nil {
			t.Fatal(err)
		}
		if len(data.Rows) == 0 || data.Rows[0].Name != want.row || len(data.Rows) > pageSize {
			t.Errorf("of %d: %d rows, %+v", total, len(data.Rows), data.Rows[:min(1, len(data.Rows))])
		}
		var found []string
		for _, f := range data.Filters() {
			found = append(found, fmt.Sprintf("%s <b>%d</b>", f.Name, f.Count))
		}
		if !strings.Contains(strings.Join(found, " "), want.counts) {
			t.Errorf("of %d: filters %q", total, found)
		}
	}
}

// A list that was searched completely has no note.
func TestSearchLimitNote(t *testing.T) {
	for _, test := range []struct {
		seen            int
		all, full, note bool
	}{
		{searchPageSize, false, false, false},
		{searchPageSize, true, true, false},
		{maxSearchedRows, false, true, true},
		{maxSearchedRows, true, true, false},
	} {
		p := &kindPage{}
		if full := p.isFull(test.seen, test.all); full != test.full || (p.Note != "") != test.note {
			t.Errorf("%+v: %t, %q", test, full, p.Note)
		}
	}
}
