package dashboard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Users see a plan only if they may read all objects in it, in all namespaces.
func TestPlanPermissions(t *testing.T) {
	web := webSubject("a", "b")
	elsewhere := podRef("p")
	elsewhere.Namespace = "bank"
	all := []object.Ref{web.Ref, podRef("p"), elsewhere}
	for _, c := range []struct {
		name  string
		refs  []object.Ref
		own   bool
		may   []string
		lacks string
	}{
		{"all may be read", all, false, []string{"Pod in shop", "Pod in bank"}, ""},
		{"the object itself was read", []object.Ref{web.Ref}, false, nil, ""},
		{"another of its kind was not", []object.Ref{webSubject("other", "").Ref}, false, nil, `cannot get resource "webs" in API group "example.org" in the namespace "shop"`},
		{"a kind may not", all, false, nil, `cannot get resource "pods" in API group "" in the namespace "shop"`},
		{"a namespace may not", all, false, []string{"Pod in shop"}, `cannot get resource "pods" in API group "" in the namespace "bank"`},
		{"the process itself", all, true, nil, ""},
		{"another version", nil, false, []string{"Pod in shop", "Pod in bank"}, "runs a version"},
		{"another version, the process itself", nil, true, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planPage{pageObject: web}
			p.setPlan(&inspect.Plan{Text: "Web shop/a\n", Report: json.RawMessage(`{}`), Refs: c.refs}, c.own, func(kind object.Kind, namespace string) bool {
				return strings.Contains(strings.Join(c.may, ","), kind.Kind+" in "+namespace)
			})
			shown := len(p.Lines) > 0 && p.Report != ""
			if shown != (c.lacks == "") || !shown && len(p.Lines)+len(p.Report) > 0 || !strings.Contains(p.MissingPermission, c.lacks) {
				t.Errorf("shown %t, lacking %q", shown, p.MissingPermission)
			}
		})
	}
}
