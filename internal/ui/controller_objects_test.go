package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

func visiting(t *testing.T, path string) *visit {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
	return &visit{Server: serve(t), r: r, visitor: &access.Visitor{User: asuser.User{Own: true}}}
}

func deployment(group string) inspect.Kind {
	return inspect.Kind{Group: group, Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
}

func cared(kind inspect.Kind) inspect.Care {
	return inspect.Care{Ref: inspect.Ref{Kind: kind, Namespace: "shop", Name: "a"}}
}

// Kinds of one name are told apart by their groups, and where no kind is known, nothing
// is listed.
func TestObjectsByKind(t *testing.T) {
	source := &still{name: "setpoint", page: inspect.Page{Objects: []inspect.Care{cared(deployment("apps")), cared(deployment("test"))}}}
	for _, c := range []struct {
		name    string
		kinds   []inspect.Kind
		objects int
	}{
		{"both", []inspect.Kind{deployment("apps"), deployment("test")}, 2},
		{"one of them", []inspect.Kind{deployment("apps")}, 1},
		{"none is known", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			source.page.Objects = []inspect.Care{cared(deployment("apps")), cared(deployment("test"))}
			list, err := visiting(t, "/?kind=Deployment.apps").objects(source, &inspect.Controller{Name: "c", Kinds: c.kinds})
			if err != nil || len(list.Objects) != c.objects || list.Query.Kind != "Deployment" || list.Query.Group != "apps" {
				t.Errorf("%+v, %v", list, err)
			}
			for _, choice := range list.KindChoices() {
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

// A row tells of its own object, not of one of another group with its name.
func TestJoinCares(t *testing.T) {
	page := kindPage{Kind: deployment("apps"), Rows: []objectRow{{Row: asuser.Row{Namespace: "shop", Name: "a"}}}}
	page.join([]inspect.Care{cared(deployment("test"))})
	if len(page.Rows[0].Cares) != 0 {
		t.Errorf("joined %+v", page.Rows[0].Cares)
	}
	page.join([]inspect.Care{cared(deployment("apps"))})
	if len(page.Rows[0].Cares) != 1 {
		t.Error("not joined")
	}
}

func TestAllowed(t *testing.T) {
	all := []inspect.Controller{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got := allowed(all, func(c *inspect.Controller) bool {
		c.Process = "changed"
		return c.Name != "b"
	})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" || got[0].Process != "changed" || all[0].Process != "" {
		t.Errorf("allowed %+v of %+v", got, all)
	}
}

func TestFiltersKeepTheOrderAndOfferWhatThereIs(t *testing.T) {
	kinds := []inspect.Kind{webKind(), podRef("a").Kind}
	for _, test := range []struct {
		list     objectList
		has, not string
	}{
		{objectList{Query: inspect.Query{Sort: "name", Reverse: true}, Kinds: kinds}, `<option value="">All kinds`, "left out"},
		{objectList{Query: inspect.Query{Sort: "name", Reverse: true}, Kinds: kinds, Partial: true}, "Some kinds of this controller are left out", "All kinds"},
	} {
		test.list.Total = 1
		var out strings.Builder
		data := map[string]any{"Objects": &test.list, "Suspended": false, "Kinds": kinds}
		if err := serve(t).pages["controller"].ExecuteTemplate(&out, "objects", view{Data: data}); err != nil {
			t.Fatal(err)
		}
		wants(t, out.String(), `name="reverse" value="yes"`, test.has)
		if strings.Contains(out.String(), test.not) {
			t.Errorf("it says %q", test.not)
		}
	}
}
