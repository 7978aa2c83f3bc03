package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func newTestRequest(t *testing.T, path string) *request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
	return &request{Server: newServer(t), r: r, identity: &access.Identity{User: userclient.User{OwnCredentials: true}}}
}

func deployment(group string) object.Kind {
	return object.Kind{Group: group, Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
}

func newState(kind object.Kind) inspect.ObjectState {
	return inspect.ObjectState{Ref: object.Ref{Kind: kind, Namespace: "shop", Name: "a"}}
}

// Kinds with the same name are distinguished by group. Without known kinds, nothing is listed.
func TestObjectsByKind(t *testing.T) {
	source := &fakeSource{name: "setpoint", page: inspect.Page{Objects: []inspect.ObjectState{newState(deployment("apps")), newState(deployment("test"))}}}
	for _, c := range []struct {
		name    string
		kinds   []object.Kind
		objects int
	}{
		{"both", []object.Kind{deployment("apps"), deployment("test")}, 2},
		{"one of them", []object.Kind{deployment("apps")}, 1},
		{"none is known", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			source.page.Objects = []inspect.ObjectState{newState(deployment("apps")), newState(deployment("test"))}
			list, err := newTestRequest(t, "/?kind=Deployment.apps").listObjects(&processInfo{Source: source}, &inspect.Controller{Name: "c", Kinds: c.kinds})
			if err != nil || len(list.Objects) != c.objects || list.Query.Kind != "Deployment" || list.Query.Group != "apps" {
				t.Errorf("%+v, %v", list, err)
			}
			for _, choice := range list.KindOptions() {
				if choice.Current != (choice.Value == "Deployment.apps") || (choice.Name == choice.Value) != (len(c.kinds) > 1) {
					t.Errorf("%+v", choice)
				}
			}
		})
	}
}

func TestKindValue(t *testing.T) {
	for _, c := range []struct{ group, kind, want string }{{"", "", ""}, {"", "Pod", "Pod"}, {"apps", "Deployment", "Deployment.apps"}} {
		if got := kindValue(c.group, c.kind); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// A row shows the state of its own object, not of one in another group.
func TestJoinStates(t *testing.T) {
	page := kindPage{Kind: deployment("apps"), Rows: []objectRow{{Row: userclient.Row{Namespace: "shop", Name: "a"}}}}
	page.joinStates([]inspect.ObjectState{newState(deployment("test"))})
	if len(page.Rows[0].States) != 0 {
		t.Errorf("joined %+v", page.Rows[0].States)
	}
	page.joinStates([]inspect.ObjectState{newState(deployment("apps"))})
	if len(page.Rows[0].States) != 1 {
		t.Error("not joined")
	}
}

func TestFilterAllowed(t *testing.T) {
	all := []inspect.Controller{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got := filterAllowed(all, func(c *inspect.Controller) bool {
		c.Process = "changed"
		return c.Name != "b"
	})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" || got[0].Process != "changed" || all[0].Process != "" {
		t.Errorf("allowed %+v of %+v", got, all)
	}
}

func TestStateFilters(t *testing.T) {
	kinds := []object.Kind{webKind(), podRef("a").Kind}
	for _, test := range []struct {
		list     objectList
		has, not string
	}{
		{objectList{listView: listView{Sort: "name", Reverse: true}, Kinds: kinds}, `<option value="">All kinds`, "left out"},
		{objectList{listView: listView{Sort: "name", Reverse: true}, Kinds: kinds, Partial: true}, "Kinds that you cannot list", "All kinds"},
	} {
		test.list.Total = 1
		var out strings.Builder
		data := map[string]any{"Objects": &test.list, "Suspended": false, "Kinds": kinds}
		if err := newServer(t).pages["controller"].ExecuteTemplate(&out, "objects", page{Data: data}); err != nil {
			t.Fatal(err)
		}
		wantTexts(t, out.String(), `name="reverse" value="yes"`, test.has)
		if strings.Contains(out.String(), test.not) {
			t.Errorf("it says %q", test.not)
		}
	}
}
