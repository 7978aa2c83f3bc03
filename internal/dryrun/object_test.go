package dryrun

import (
	"slices"
	"testing"
)

// A report lists every object that it shows.
func TestRefsOfAReport(t *testing.T) {
	pod := func(namespace, name string) Ref {
		return Ref{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name}
	}
	report := Report{Controllers: []Controller{{Objects: []Object{{
		Ref:     Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Changes: []Change{{Ref: pod("shop", "made")}},
		Calls: []Call{
			{Changes: []Change{{Ref: pod("bank", "written")}, {Ref: pod("shop", "made")}}},
			{Unchanged: []Ref{{APIVersion: "v1", Kind: "Node", Name: "same"}}},
		},
	}}}, {Error: &Problem{Message: "no"}}}}
	var got []string
	for _, ref := range report.refs() {
		got = append(got, ref.Group+" "+ref.Version+" "+ref.Kind.Kind+" "+ref.Namespace+"/"+ref.Name)
	}
	slices.Sort(got)
	want := []string{" v1 Node /same", " v1 Pod bank/written", " v1 Pod shop/made", "apps v1 Deployment shop/web"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
