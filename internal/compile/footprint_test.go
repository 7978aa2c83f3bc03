package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestFootprint(t *testing.T) {
	const hooks = `"hooks":{"sync":{},"finalize":{"webhook":{"url":"http://h"}}}`
	kind, _ := KindNamed("metacontroller.k8s.io/v1alpha1", "DecoratorController")
	for name, c := range map[string]struct{ spec, want string }{
		"composite":        {`{"parentResource":{"apiVersion":"a.b/v1","resource":"shops"},` + hooks + `}`, "true [a.b/v1/shops]"},
		"decorator":        {`{"resources":[{"apiVersion":"v1","resource":"pods"},{"apiVersion":"a.b/v1","resource":"shops"}],` + hooks + `}`, "true [v1/pods a.b/v1/shops]"},
		"no finalize hook": {`{"parentResource":{"apiVersion":"v1","resource":"pods"},"hooks":{"sync":{}}}`, "false [v1/pods]"},
		"one that is off":  {`{"hooks":{"finalize":{"version":"v2","webhook":null}}}`, "false []"},
		"no hooks":         {`{"hooks":null}`, "false []"},
		"handlers":         {`{"resource":{"apiVersion":"v1","resource":"pods"},"handlers":[{"reasons":["Create"]},{"reasons":["Update","Delete"]}]}`, "true [v1/pods]"},
		"optional handler": {`{"resource":{"apiVersion":"v1","resource":"pods"},"handlers":[{"reasons":["Delete"],"optional":true},{"every":"1h"}]}`, "false [v1/pods]"},
		// An invalid spec does not hide what was done while it was valid.
		"no sync hook": {`{"parentResource":{"apiVersion":"v1","resource":"pods"},"hooks":{"finalize":{"webhook":{}}}}`, "true [v1/pods]"},
		"unreadable":   {`[]`, "false []"},
	} {
		t.Run(name, func(t *testing.T) {
			o := must.Get(object.Parse([]byte(`{"metadata":{"name":"shops"},"spec":` + c.spec + `}`))).In(t)
			f := kind.Footprint(o)
			if got := fmt.Sprint(f.Finalizes, " ", f.Parents); got != c.want || f.Finalizer != "metacontroller.io/decoratorcontroller-shops" {
				t.Errorf("got %s with %s, want %s", got, f.Finalizer, c.want)
			}
		})
	}
}

// Objects lose the finalizer if their kind is no longer a parent, or the hook or the controller is
// gone.
func TestFinalizerRemovals(t *testing.T) {
	for name, c := range map[string]struct {
		noted, parents    string
		finalizes, leaves bool
		want              string
	}{
		"all is as it was":       {noted: "v1/pods a/v1/shops", parents: "v1/pods a/v1/shops", finalizes: true},
		"one is named no more":   {noted: "v1/pods a/v1/shops", parents: "v1/pods", finalizes: true, want: "a/v1/shops"},
		"one in another version": {noted: "a/v1/shops", parents: "a/v2/shops", finalizes: true},
		"one is new":             {noted: "v1/pods", parents: "v1/pods a/v1/shops", finalizes: true},
		"the hook is gone":       {noted: "v1/pods", parents: "v1/pods", want: "v1/pods"},
		"the controller goes":    {noted: "v1/pods", parents: "v1/pods a/v1/shops", finalizes: true, leaves: true, want: "v1/pods a/v1/shops"},
		"nothing was noted":      {parents: "a/v1/shops", leaves: true, want: "a/v1/shops"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Footprint{Finalizes: c.finalizes}
			for text := range strings.FieldsSeq(c.parents) {
				f.Parents = append(f.Parents, ParseResourceName(text))
			}
			got := lists.Map(f.FinalizerRemovals(strings.Fields(c.noted), c.leaves), ResourceName.String)
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
